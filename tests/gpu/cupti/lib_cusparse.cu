// A sparse matrix of three diagonals times a vector, there and back.
#include "library.cuh"

#include <cusparse.h>

int main(int argc, char **argv)
{
    const int n = 4096;
    std::vector<int> offsets{0}, columns;
    std::vector<float> values;
    for (int row = 0; row < n; row++) {
        for (int column = row - 1; column <= row + 1; column++) {
            if (column >= 0 && column < n) {
                columns.push_back(column);
                values.push_back(column == row ? 0.5f : 0.25f);
            }
        }
        offsets.push_back(static_cast<int>(columns.size()));
    }
    const float one = 1.0f, zero = 0.0f;
    float *x = library_device(library_values(n)), *y = library_device(library_values(n));
    cudaStream_t stream;
    cusparseHandle_t sparse;
    cusparseSpMatDescr_t matrix;
    cusparseDnVecDescr_t vectors[2];
    CHECK(cudaStreamCreate(&stream));
    CHECK_LIBRARY(cusparseCreate(&sparse), CUSPARSE_STATUS_SUCCESS);
    CHECK_LIBRARY(cusparseSetStream(sparse, stream), CUSPARSE_STATUS_SUCCESS);
    CHECK_LIBRARY(cusparseCreateCsr(&matrix, n, n, static_cast<int64_t>(values.size()),
                                    library_device(offsets), library_device(columns),
                                    library_device(values), CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                                    CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F),
                  CUSPARSE_STATUS_SUCCESS);
    CHECK_LIBRARY(cusparseCreateDnVec(&vectors[0], n, x, CUDA_R_32F), CUSPARSE_STATUS_SUCCESS);
    CHECK_LIBRARY(cusparseCreateDnVec(&vectors[1], n, y, CUDA_R_32F), CUSPARSE_STATUS_SUCCESS);
    size_t bytes;
    CHECK_LIBRARY(cusparseSpMV_bufferSize(sparse, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix,
                                          vectors[0], &zero, vectors[1], CUDA_R_32F,
                                          CUSPARSE_SPMV_CSR_ALG2, &bytes),
                  CUSPARSE_STATUS_SUCCESS);
    auto *work = library_device(std::vector<unsigned char>(bytes + 1));
    return library_run(argc, argv, "cusparse", stream, x, n * sizeof *x, [&] {
        for (int i = 0; i < 8; i++) {
            CHECK_LIBRARY(cusparseSpMV(sparse, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix,
                                       vectors[i % 2], &zero, vectors[1 - i % 2], CUDA_R_32F,
                                       CUSPARSE_SPMV_CSR_ALG2, work),
                          CUSPARSE_STATUS_SUCCESS);
        }
    });
}
