# libraft 0.22.1 exactly: older releases lack safety fixes of the core, later ones change who owns
# the memory that raft_step hands over. Either the system's library, or its core compiled with
# assertions from LIBRAFT_SOURCE, for the fuzzers and a simulator with sanitizers.
set(LIBRAFT_VERSION 0.22.1)
add_library(holdfast_libraft INTERFACE)

# Adds the library raft_asserts: the core of this source tree, with its assertions.
function(libraft_asserts source)
    file(STRINGS ${source}/configure.ac init REGEX "AC_INIT")
    if(NOT init MATCHES "\\[${LIBRAFT_VERSION}\\]")
        message(FATAL_ERROR "${source} is not libraft ${LIBRAFT_VERSION}: ${init}")
    endif()
    file(GLOB core ${source}/src/*.c)
    list(FILTER core EXCLUDE REGEX "/(uv|fixture)[^/]*\\.c$")
    add_library(raft_asserts STATIC ${core})
    target_include_directories(raft_asserts PUBLIC ${source}/include)
    target_compile_definitions(raft_asserts PRIVATE _GNU_SOURCE)
    target_compile_options(raft_asserts PRIVATE -w -UNDEBUG)
    if(SANITIZE)
        target_compile_options(raft_asserts PRIVATE -fsanitize=${SANITIZE})
    endif()
endfunction()

if(LIBRAFT_SOURCE)
    libraft_asserts(${LIBRAFT_SOURCE})
    target_link_libraries(holdfast_libraft INTERFACE raft_asserts)
    return()
endif()

pkg_check_modules(RAFT IMPORTED_TARGET raft)
if(NOT RAFT_FOUND)
    message(FATAL_ERROR "libraft is missing: holdfast needs libraft ${LIBRAFT_VERSION}; "
        "deploy/install-deps installs it")
endif()
if(NOT RAFT_VERSION VERSION_EQUAL LIBRAFT_VERSION)
    message(FATAL_ERROR "libraft ${RAFT_VERSION} found, holdfast needs exactly ${LIBRAFT_VERSION}: "
        "older releases lack safety fixes of the Raft core, later ones change who owns memory. "
        "deploy/install-deps installs the right one")
endif()
target_link_libraries(holdfast_libraft INTERFACE PkgConfig::RAFT)
