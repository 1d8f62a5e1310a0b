# The libraries that ddpc is built with: ddpc_jansson writes JSON, ddpc_xxhash is a header that hashes plans, ddpc_nanopb
# reads the wire format of .onnx files, ddpc_zlib unpacks profiles. They are the machine's, where it has them, else built from the releases named
# here, which takes the network but no root. python/NOTICE has their licences. For a machine that does not reach these
# addresses, DDPC_MIRROR names a place (https://…, file:///FOLDER) that has the files jansson-2.14.tar.gz,
# xxHash-0.8.1.tar.gz, nanopb-0.4.7.tar.gz and zlib-1.3.1.tar.gz; the hashes hold.
set(DDPC_MIRROR "" CACHE STRING
    "Where jansson-2.14.tar.gz, xxHash-0.8.1.tar.gz, nanopb-0.4.7.tar.gz and zlib-1.3.1.tar.gz are fetched from, if not\
 from their authors")

# The folder of a release's unpacked sources, in the build folder.
function(ddpc_fetch folder release address hash)
  set(file ${PROJECT_BINARY_DIR}/releases/${release}.tar.gz)
  set(sources ${PROJECT_BINARY_DIR}/releases/${release})
  set(${folder} ${sources} PARENT_SCOPE)
  if(EXISTS ${sources})
    return()
  endif()
  if(DDPC_MIRROR)
    set(address ${DDPC_MIRROR}/${release}.tar.gz)
  endif()
  message(STATUS "Fetching ${address}")
  file(DOWNLOAD ${address} ${file} STATUS status TLS_VERIFY ON)
  file(SHA256 ${file} found)
  if(NOT found STREQUAL hash)
    file(REMOVE ${file})
    list(JOIN status ", " status)
    message(FATAL_ERROR "${address} cannot be used: status ${status}, SHA256 ${found}, which should be ${hash}. "
            "Install the library instead (Debian: libjansson-dev libxxhash-dev libnanopb-dev zlib1g-dev pkg-config), or fetch "
            "${release}.tar.gz elsewhere and configure with -DDDPC_MIRROR=file:///ITS/FOLDER")
  endif()
  file(ARCHIVE_EXTRACT INPUT ${file} DESTINATION ${PROJECT_BINARY_DIR}/releases)
endfunction()

find_package(PkgConfig QUIET)
if(SKBUILD)
  # What a Python wheel carries also runs where the libraries are not installed.
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a ${CMAKE_FIND_LIBRARY_SUFFIXES})
endif()
if(PkgConfig_FOUND)
  pkg_check_modules(JANSSON IMPORTED_TARGET jansson)
  pkg_check_modules(XXHASH libxxhash>=0.8)
  pkg_check_modules(ZLIB IMPORTED_TARGET zlib)
endif()

add_library(ddpc_jansson INTERFACE)
if(JANSSON_FOUND)
  target_link_libraries(ddpc_jansson INTERFACE PkgConfig::JANSSON)
else()
  ddpc_fetch(jansson jansson-2.14 https://github.com/akheron/jansson/archive/v2.14.tar.gz
             c739578bf6b764aa0752db9a2fdadcfe921c78f1228c7ec0bb47fa804c55d17b)
  block()
    set(JANSSON_BUILD_DOCS OFF)
    set(JANSSON_EXAMPLES OFF)
    set(JANSSON_WITHOUT_TESTS ON)
    # It asks for a CMake that current ones have forgotten, whose options do not heed variables.
    set(CMAKE_POLICY_DEFAULT_CMP0077 NEW)
    set(CMAKE_POLICY_VERSION_MINIMUM 3.5)
    set(CMAKE_WARN_DEPRECATED OFF)
    set(CMAKE_MESSAGE_LOG_LEVEL NOTICE)
    add_subdirectory(${jansson} ${PROJECT_BINARY_DIR}/releases/jansson EXCLUDE_FROM_ALL)
  endblock()
  target_link_libraries(ddpc_jansson INTERFACE jansson)
  target_include_directories(ddpc_jansson SYSTEM INTERFACE ${PROJECT_BINARY_DIR}/releases/jansson/include)
endif()

add_library(ddpc_xxhash INTERFACE)
if(XXHASH_FOUND)
  target_include_directories(ddpc_xxhash SYSTEM INTERFACE ${XXHASH_INCLUDE_DIRS})
else()
  ddpc_fetch(xxhash xxHash-0.8.1 https://github.com/Cyan4973/xxHash/archive/v0.8.1.tar.gz
             3bb6b7d6f30c591dd65aaaff1c8b7a5b94d81687998ca9400082c739a690436c)
  target_include_directories(ddpc_xxhash SYSTEM INTERFACE ${xxhash})
endif()

# No pkg-config file comes with it, and no generator is needed: only its streams are used (ir/onnx*.c).
find_path(NANOPB_INCLUDE pb_decode.h PATH_SUFFIXES nanopb)
find_library(NANOPB_LIBRARY protobuf-nanopb)
mark_as_advanced(NANOPB_INCLUDE NANOPB_LIBRARY)
if(NANOPB_INCLUDE AND NANOPB_LIBRARY)
  add_library(ddpc_nanopb INTERFACE)
  target_link_libraries(ddpc_nanopb INTERFACE ${NANOPB_LIBRARY})
  target_include_directories(ddpc_nanopb SYSTEM INTERFACE ${NANOPB_INCLUDE})
else()
  ddpc_fetch(nanopb nanopb-0.4.7 https://github.com/nanopb/nanopb/archive/0.4.7.tar.gz
             e1d89b166367a3c42d42311bdc2ed57ff78f86aede9a66828516e45490d48c81)
  add_library(ddpc_nanopb STATIC EXCLUDE_FROM_ALL ${nanopb}/pb_common.c ${nanopb}/pb_decode.c)
  set_target_properties(ddpc_nanopb PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_include_directories(ddpc_nanopb SYSTEM PUBLIC ${nanopb})
endif()

# Its own build is not asked: it would also make a shared library and tests. These are the files of gzread.
add_library(ddpc_zlib INTERFACE)
if(ZLIB_FOUND)
  target_link_libraries(ddpc_zlib INTERFACE PkgConfig::ZLIB)
else()
  ddpc_fetch(zlib zlib-1.3.1 https://github.com/madler/zlib/releases/download/v1.3.1/zlib-1.3.1.tar.gz
             9a93b2b7dfdac77ceba5a558a580e74667dd6fede4585b91eefb60f03b72df23)
  set(zlib_sources adler32 crc32 gzclose gzlib gzread gzwrite deflate inffast inflate inftrees trees zutil)
  list(TRANSFORM zlib_sources REPLACE "(.+)" "${zlib}/\\1.c")
  add_library(ddpc_zlib_static STATIC EXCLUDE_FROM_ALL ${zlib_sources})
  target_compile_definitions(ddpc_zlib_static PRIVATE Z_HAVE_UNISTD_H)
  set_target_properties(ddpc_zlib_static PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_include_directories(ddpc_zlib_static SYSTEM PUBLIC ${zlib})
  target_link_libraries(ddpc_zlib INTERFACE ddpc_zlib_static)
endif()
