# What the build needs from outside, each with a clear message where it is missing.
# cuda.h only: neither libcuda nor cudart is ever linked into the library.
find_path(AG_CUDA_INCLUDE_DIR cuda.h
  HINTS $ENV{CUDA_HOME}/include $ENV{CUDA_PATH}/include
    $ENV{CONDA_PREFIX}/targets/x86_64-linux/include
  PATHS /usr/local/cuda/include /usr/local/cuda/targets/x86_64-linux/include)
if(NOT AG_CUDA_INCLUDE_DIR)
  message(FATAL_ERROR "CUDA Toolkit 12.4 or newer is needed (cuda.h was not found). "
    "Install it from https://developer.nvidia.com/cuda-downloads, or set CUDA_HOME to where include/cuda.h is: for the "
    "library alone this file is enough.")
endif()
file(STRINGS ${AG_CUDA_INCLUDE_DIR}/cuda.h AG_CUDA_VERSION_LINE REGEX "^#define CUDA_VERSION [0-9]+")
string(REGEX REPLACE "[^0-9]*([0-9]+).*" "\\1" AG_CUDA_VERSION "${AG_CUDA_VERSION_LINE}")
if(AG_CUDA_VERSION LESS 12040)
  message(FATAL_ERROR "CUDA Toolkit 12.4 or newer is needed; ${AG_CUDA_INCLUDE_DIR}/cuda.h is of version ${AG_CUDA_VERSION}.")
endif()
find_program(AG_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin ${AG_CUDA_INCLUDE_DIR}/../bin PATHS /usr/local/cuda/bin)

# .deps/include is where tests/gpu/pack puts headers for machines without package registries.
find_path(AG_UTHASH_INCLUDE_DIR uthash.h HINTS ${CMAKE_SOURCE_DIR}/.deps/include)
if(NOT AG_UTHASH_INCLUDE_DIR)
  message(FATAL_ERROR "uthash.h is missing: apt-get install uthash-dev, dnf install uthash-devel, or put this one file of "
    "https://troydhanson.github.io/uthash into .deps/include or the include folder of your conda environment.")
endif()
find_package(Threads REQUIRED)

# The library asks for no more than that; the tests do.
if(AG_BUILD_TESTS)
  find_path(AG_CMOCKA_INCLUDE_DIR cmocka.h)
  find_library(AG_CMOCKA cmocka)
  if(NOT AG_CMOCKA_INCLUDE_DIR OR NOT AG_CMOCKA)
    message(STATUS "The tests are not built, they need cmocka: "
      "apt-get install libcmocka-dev, dnf install libcmocka-devel, conda install -c conda-forge cmocka.")
    set(AG_BUILD_TESTS OFF)
  elseif(NOT EXISTS ${AG_CUDA_INCLUDE_DIR}/cudaProfiler.h)
    message(STATUS "The tests are not built: beside ${AG_CUDA_INCLUDE_DIR}/cuda.h there is no cudaProfiler.h.")
    set(AG_BUILD_TESTS OFF)
  endif()
endif()

# What programs of the driver's API are linked to, so that no driver is needed where they are built. The simulated driver has
# the same names.
find_library(AG_CUDA_STUB cuda
  HINTS ${AG_CUDA_INCLUDE_DIR}/../lib64/stubs ${AG_CUDA_INCLUDE_DIR}/../lib/stubs
  PATHS /usr/local/cuda/lib64/stubs /usr/local/cuda/targets/x86_64-linux/lib/stubs)
if(NOT AG_CUDA_STUB AND AG_BUILD_TESTS)
  set(AG_CUDA_STUB simcuda)
endif()

add_library(ag_deps INTERFACE)
target_include_directories(ag_deps INTERFACE ${CMAKE_SOURCE_DIR})
target_include_directories(ag_deps SYSTEM INTERFACE ${AG_CUDA_INCLUDE_DIR} ${AG_UTHASH_INCLUDE_DIR})
target_link_libraries(ag_deps INTERFACE Threads::Threads ${CMAKE_DL_LIBS})
