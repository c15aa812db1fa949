# What `cmake --install` puts where, below the prefix. The unit names the program and the documents,
# so it is written at installation, when the prefix is known.
install(TARGETS holdfast RUNTIME DESTINATION bin)
install(CODE "set(unit_folder \"${CMAKE_CURRENT_SOURCE_DIR}/deploy/systemd\")")
install(CODE [[
    foreach(name holdfast holdfast-worker)
        set(unit "${CMAKE_INSTALL_PREFIX}/lib/systemd/system/${name}.service")
        file(READ "${unit_folder}/${name}.service" text)
        string(REPLACE "/usr/local/" "${CMAKE_INSTALL_PREFIX}/" text "${text}")
        file(WRITE "$ENV{DESTDIR}${unit}" "${text}")
        message(STATUS "Installing: $ENV{DESTDIR}${unit}")
    endforeach()
]])
install(FILES deploy/systemd/sysusers.conf DESTINATION lib/sysusers.d RENAME holdfast.conf)
install(FILES deploy/systemd/tmpfiles.conf DESTINATION lib/tmpfiles.d RENAME holdfast.conf)

# The documents keep their folders: they link to each other.
set(DOC share/doc/holdfast)
install(FILES README.md LIMITS.md PROTOCOL.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE DESTINATION ${DOC})
install(DIRECTORY docs DESTINATION ${DOC} FILES_MATCHING PATTERN "*.md")
install(FILES deploy/README.md DESTINATION ${DOC}/deploy)
install(DIRECTORY deploy/dr DESTINATION ${DOC}/deploy
    FILES_MATCHING PATTERN "*.md" PATTERN "alerts.yml")
install(DIRECTORY deploy/observe DESTINATION ${DOC}/deploy)
install(FILES deploy/haproxy/haproxy.cfg DESTINATION ${DOC}/deploy/haproxy)
install(PROGRAMS deploy/tls/bootstrap DESTINATION ${DOC}/deploy/tls)

# Manual page and completions come from the program's table of commands. A cross build cannot run
# the program; its packager runs `holdfast man` and `holdfast completion` on the target.
if(NOT CMAKE_CROSSCOMPILING)
    set(made ${CMAKE_BINARY_DIR}/share)
    file(MAKE_DIRECTORY ${made})
    add_custom_command(
        OUTPUT ${made}/holdfast.1 ${made}/holdfast.bash ${made}/_holdfast ${made}/holdfast.fish
        COMMAND holdfast man > ${made}/holdfast.1
        COMMAND holdfast completion bash > ${made}/holdfast.bash
        COMMAND holdfast completion zsh > ${made}/_holdfast
        COMMAND holdfast completion fish > ${made}/holdfast.fish
        DEPENDS holdfast VERBATIM)
    add_custom_target(generated ALL DEPENDS ${made}/holdfast.1)
    install(FILES ${made}/holdfast.1 DESTINATION share/man/man1)
    install(FILES ${made}/holdfast.bash DESTINATION share/bash-completion/completions
        RENAME holdfast)
    install(FILES ${made}/_holdfast DESTINATION share/zsh/site-functions)
    install(FILES ${made}/holdfast.fish DESTINATION share/fish/vendor_completions.d)
endif()
