# llhttp 9.2 or later: earlier releases accept framings that proxies read differently.
find_path(LLHTTP_INCLUDE llhttp.h REQUIRED)
find_library(LLHTTP_LIBRARY llhttp REQUIRED)
file(STRINGS ${LLHTTP_INCLUDE}/llhttp.h parts_of REGEX "define LLHTTP_VERSION_(MAJOR|MINOR) ")
string(REGEX REPLACE ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*" "\\1.\\2" LLHTTP_VERSION "${parts_of}")
if(LLHTTP_VERSION VERSION_LESS 9.2)
    message(FATAL_ERROR "llhttp ${LLHTTP_VERSION} found, holdfast needs 9.2 or later: earlier "
        "releases accept ambiguous framings. deploy/install-deps installs it")
endif()
add_library(holdfast_llhttp INTERFACE)
target_include_directories(holdfast_llhttp INTERFACE ${LLHTTP_INCLUDE})
target_link_libraries(holdfast_llhttp INTERFACE ${LLHTTP_LIBRARY})
