/* Names of hosts, compared label by label. */
#include "api/ssh/ssh.h"

static bool is_label(const char *label, size_t len)
{
    if (len == 0 || len > 63)
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = label[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_'))
            return false;
    }
    return label[0] != '-' && label[len - 1] != '-';
}

bool ssh_host_fold(const char *text, char *ret_folded, bool *ret_star)
{
    struct ip ip;
    size_t len = strlen(text);
    *ret_star = false;
    if (len == 0 || len > SSH_HOST_MAX)
        return false;
    for (size_t i = 0; i <= len; i++)
        ret_folded[i] = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] | 0x20) : text[i];
    if (ip_parse(bytes_of(ret_folded, len), &ip) == ST_OK)
        return true;
    const char *at = ret_folded;
    if (strncmp(at, "*.", 2) == 0) {
        *ret_star = true;
        at += 2;
    }
    for (;; at++) {
        size_t n = strcspn(at, ".");
        if (!is_label(at, n))
            return false;
        at += n;
        if (*at == '\0')
            return true;
    }
}

bool ssh_host_allowed(const struct ssh_role *role, const struct field_strings *domains,
                      const char *folded)
{
    char domain[SSH_HOST_MAX + 1];
    size_t len = strlen(folded);
    bool star;
    for (size_t i = 0; i < domains->n; i++) {
        if (!ssh_host_fold(domains->items[i], domain, &star) || star)
            continue; /* a star means something only as the whole list */
        size_t n = strlen(domain);
        if (strcmp(folded, domain) == 0 && role->allow_bare_domains)
            return true;
        if (len > n + 1 && folded[len - n - 1] == '.' && strcmp(folded + len - n, domain) == 0 &&
            role->allow_subdomains)
            return true;
    }
    return false;
}

void ssh_domains_judge(struct req *req, const struct ssh_role *role, struct ssh_warnings *warnings)
{
    char domain[SSH_HOST_MAX + 1];
    struct field_strings items;
    bool star;
    if (!role->allow_host_certificates || role->allowed_domains_template ||
        ssh_list_items(req, "allowed_domains", role->allowed_domains, SSH_NAMES_MAX, &items) !=
            ST_OK) /* the list was checked: there is no memory for a warning */
        return;
    if (items.n == 0 || (items.n == 1 && strcmp(items.items[0], "*") == 0))
        return;
    if (!role->allow_bare_domains && !role->allow_subdomains)
        ssh_warn(req, warnings,
                 "allowed_domains: no host matches without allow_bare_domains or "
                 "allow_subdomains");
    for (size_t i = 0; i < items.n; i++)
        if (!ssh_host_fold(items.items[i], domain, &star) || star)
            ssh_warn(req, warnings,
                     "allowed_domains: no host matches item %zu: a domain such as example.com is "
                     "expected, or \"*\" as the whole list",
                     i + 1);
}
