# hp_torch: libtorch as one target with its headers and libraries. Taken from, in this order: Torch_DIR
# (.../share/cmake/Torch of any libtorch), the torch of an active Python environment, .deps of
# tools/torch_setup. TorchConfig.cmake is not used: it asks for a CUDA compiler, and we compile no CUDA.
set(HPPLAN_TORCH_MIN 2.15)

set(roots)
if(Torch_DIR)
  get_filename_component(root "${Torch_DIR}/../../.." ABSOLUTE)
  list(APPEND roots "${root}")
endif()
foreach(variable VIRTUAL_ENV CONDA_PREFIX)
  if(DEFINED ENV{${variable}})
    file(GLOB found "$ENV{${variable}}/lib/python3*/site-packages/torch")
    list(APPEND roots ${found})
  endif()
endforeach()
file(GLOB found "${CMAKE_SOURCE_DIR}/.deps/venv/lib/python3*/site-packages/torch")
list(APPEND roots ${found})

set(HPPLAN_TORCH_ROOT "")
foreach(root ${roots})
  set(header "${root}/include/torch/headeronly/version.h")
  if(NOT EXISTS "${root}/lib/libtorch_cpu.so" OR NOT EXISTS "${header}")
    message(STATUS "libtorch: ${root} has no lib/libtorch_cpu.so or no headers of a current release, passed over")
    continue()
  endif()
  file(STRINGS "${header}" lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^0-9]+([0-9]+)[^0-9]+([0-9]+)[^0-9]+([0-9]+).*" "\\1.\\2.\\3" version "${lines}")
  if(version VERSION_LESS HPPLAN_TORCH_MIN)
    message(STATUS "libtorch: ${root} is ${version}, older than ${HPPLAN_TORCH_MIN}, passed over")
    continue()
  endif()
  set(HPPLAN_TORCH_ROOT "${root}")
  set(HPPLAN_TORCH_VERSION "${version}")
  break()
endforeach()
if(NOT HPPLAN_TORCH_ROOT)
  message(FATAL_ERROR "libtorch ${HPPLAN_TORCH_MIN} or newer was not found. `tools/dev setup runtime` fetches it; "
                      "-DTorch_DIR=.../share/cmake/Torch names one of yours; -DHPPLAN_RUNTIME=OFF builds the planner alone.")
endif()
message(STATUS "libtorch ${HPPLAN_TORCH_VERSION}: ${HPPLAN_TORCH_ROOT}")

# Which C++ library ABI it was built with.
set(abi 1)
if(EXISTS "${HPPLAN_TORCH_ROOT}/share/cmake/Torch/TorchConfig.cmake")
  file(STRINGS "${HPPLAN_TORCH_ROOT}/share/cmake/Torch/TorchConfig.cmake" line REGEX "_GLIBCXX_USE_CXX11_ABI=0")
  if(line)
    set(abi 0)
  endif()
endif()

# at::parallel_for is OpenMP in its header: compiled with it, linked with the one OpenMP library libtorch
# itself uses, never with a second one.
find_package(OpenMP REQUIRED COMPONENTS CXX)
file(GLOB gomp "${HPPLAN_TORCH_ROOT}/lib/libgomp*.so*")
if(NOT gomp)
  set(gomp ${OpenMP_CXX_LIBRARIES})
endif()

add_library(hp_torch INTERFACE)
target_include_directories(hp_torch SYSTEM INTERFACE "${HPPLAN_TORCH_ROOT}/include"
                           "${HPPLAN_TORCH_ROOT}/include/torch/csrc/api/include")
target_compile_definitions(hp_torch INTERFACE _GLIBCXX_USE_CXX11_ABI=${abi})
target_compile_options(hp_torch INTERFACE ${OpenMP_CXX_FLAGS})
# What the libraries themselves need is found by their own run paths.
target_link_options(hp_torch INTERFACE LINKER:--unresolved-symbols=ignore-in-shared-libs)
target_link_libraries(hp_torch INTERFACE "${HPPLAN_TORCH_ROOT}/lib/libtorch_cpu.so" "${HPPLAN_TORCH_ROOT}/lib/libc10.so"
                      ${gomp})

# The CUDA half, for backend_nccl alone: every header or none.
set(HPPLAN_NCCL_INCLUDES "")
set(cuda "${HPPLAN_TORCH_ROOT}/../nvidia/cu13/include" "${HPPLAN_TORCH_ROOT}/../nvidia/nccl/include")
foreach(header nccl.h cuda_runtime_api.h crt/host_defines.h cusparse.h cublas_v2.h cublasLt.h cusolverDn.h)
  string(MAKE_C_IDENTIFIER "HPPLAN_PATH_${header}" variable)
  unset(${variable} CACHE)
  find_path(${variable} ${header} HINTS ${cuda} PATHS /usr/local/cuda/include)
  mark_as_advanced(${variable})
  if(NOT ${variable})
    message(STATUS "NCCL: ${header} was not found, hprun is built for the CPU (tools/torch_setup --cuda fetches it)")
    set(HPPLAN_NCCL_INCLUDES "")
    break()
  endif()
  list(APPEND HPPLAN_NCCL_INCLUDES "${${variable}}")
endforeach()
list(REMOVE_DUPLICATES HPPLAN_NCCL_INCLUDES)
if(NOT EXISTS "${HPPLAN_TORCH_ROOT}/lib/libtorch_cuda.so")
  set(HPPLAN_NCCL_INCLUDES "")
endif()

find_path(HPPLAN_GLOO_INCLUDE gloo/context.h REQUIRED)
