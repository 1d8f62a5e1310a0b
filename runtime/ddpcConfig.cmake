include(CMakeFindDependencyMacro)
find_dependency(Threads) # of the static library
include("${CMAKE_CURRENT_LIST_DIR}/ddpcTargets.cmake")
