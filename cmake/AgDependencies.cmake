# What the build needs from outside, each with a clear message where it is missing.
# cuda.h only: neither libcuda nor cudart is ever linked into the library.
find_path(AG_CUDA_INCLUDE_DIR cuda.h
  HINTS $ENV{CUDA_HOME}/include $ENV{CUDA_PATH}/include
  PATHS /usr/local/cuda/include /usr/local/cuda/targets/x86_64-linux/include)
if(NOT AG_CUDA_INCLUDE_DIR)
  message(FATAL_ERROR "CUDA Toolkit 12.4 or newer is needed (cuda.h was not found). "
    "Install it from https://developer.nvidia.com/cuda-downloads or set CUDA_HOME.")
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
  message(FATAL_ERROR "uthash is needed (Debian: apt-get install uthash-dev).")
endif()
find_package(Threads REQUIRED)

add_library(ag_deps INTERFACE)
target_include_directories(ag_deps INTERFACE ${CMAKE_SOURCE_DIR})
target_include_directories(ag_deps SYSTEM INTERFACE ${AG_CUDA_INCLUDE_DIR} ${AG_UTHASH_INCLUDE_DIR})
target_link_libraries(ag_deps INTERFACE Threads::Threads ${CMAKE_DL_LIBS})
