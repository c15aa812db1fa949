/* Connection strings of SQL databases: how they are read, and what is refused. */
#include "support.h"

#include "base/mem.h"
#include "out/sql/sql_internal.h"

struct row {
    enum out_sql_driver driver;
    const char *text;
    const char *host; /* NULL: refused, and the reason contains `database` */
    unsigned port;
    const char *database;
    enum sql_tls tls;
    const char *user; /* NULL: "u@:/" */
};

#define USER "u@:/%41'\\ {{password}}"
#define PASSWORD "p'\\ @:/?&%41{{username}}"

static const char *const directories[] = {"/etc/holdfast/db/"};
static const struct out_sql_policy with_files = {.directories = directories, .n_directories = 1};
static const struct out_sql_policy with_sockets = {.allow_sockets = true};
static const struct out_sql_policy nothing;

static enum status parse(const struct row *row, struct arena *arena, struct sql_name *name,
                         struct reason *why)
{
    const struct out_sql_target target = {.driver = row->driver,
                                          .text = row->text,
                                          .username = USER,
                                          .password = PASSWORD,
                                          .tls_ca = ""};
    return sql_name_parse(&target, arena, name, why);
}

static void check(const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct arena arena = {0};
        struct reason why = {""};
        struct sql_name name;
        const struct row *row = &rows[i];
        enum status st = parse(row, &arena, &name, &why);
        if (row->host == NULL) {
            if (st != ST_INVALID || strstr(why.text, row->database) == NULL)
                fail_msg("%s: %s, \"%s\"", row->text, status_name(st), why.text);
            assert_null(strstr(why.text, PASSWORD));
            assert_null(strstr(why.text, "clear"));
        } else {
            const char *user = row->user != NULL ? row->user : USER;
            if (st != ST_OK)
                fail_msg("%s: %s, \"%s\"", row->text, status_name(st), why.text);
            assert_string_equal(name.host, row->host);
            assert_int_equal(name.port, row->port);
            assert_string_equal(name.database, row->database != NULL ? row->database : user);
            assert_string_equal(name.user, user);
            assert_string_equal(name.password, PASSWORD);
            assert_int_equal(name.tls, row->tls);
        }
        arena_done(&arena);
    }
}

#define PG OUT_SQL_POSTGRES
#define MY OUT_SQL_MYSQL
#define SLOTS "{{username}}:{{password}}@"

static void urls_of_libpq_are_read(void **ctx)
{
    (void)ctx; /* stateless */
    static const struct row rows[] = {
        {PG, "postgres://" SLOTS "db.example:5433/vault", "db.example", 5433, "vault", 0, NULL},
        {PG, "postgresql://" SLOTS "db/vault?sslmode=require", "db", 5432, "vault", SQL_TLS_ANY,
         NULL},
        {PG, "postgresql://db", "db", 5432, NULL, 0, NULL},
        {PG, "postgresql:///vault", "localhost", 5432, "vault", 0, NULL},
        {PG, "postgresql://" SLOTS "[fd00::1]:6000/a%20b", "fd00::1", 6000, "a b", 0, NULL},
        {PG, "postgresql://{{username}}@tenant:{{password}}@db/d", "db", 5432, "d", 0,
         USER "@tenant"},
        {PG, "postgres://db/d?sslmode=disable&application_name=x&search_path=a,b", "db", 5432, "d",
         SQL_TLS_OFF, NULL},
        {PG, "postgres://db/d?sslmode=verify-full&connect_timeout=1", "db", 5432, "d", SQL_TLS_FULL,
         NULL},
        {PG, "postgres://db/d?sslmode=verify-ca&sslrootcert=system", "db", 5432, "d", SQL_TLS_CA,
         NULL},
        {PG, "postgres://db/d?user={{username}}&password={{password}}&port=99", "db", 99, "d", 0,
         NULL},
    };
    out_sql_set_policy(&nothing);
    check(rows, ARRAY_LEN(rows));
}

static void keywords_of_libpq_are_read(void **ctx)
{
    (void)ctx; /* stateless */
    static const struct row rows[] = {
        {PG, "host=db port=1 dbname=vault user={{username}} password={{password}}", "db", 1,
         "vault", 0, NULL},
        {PG, " host = 'db'  dbname='a b\\'c' sslmode=prefer ", "db", 5432, "a b'c", SQL_TLS_PREFER,
         NULL},
        {PG, "dbname=d user='{{username}}' password='{{password}}'", "localhost", 5432, "d", 0,
         NULL},
        {PG, "", "localhost", 5432, NULL, 0, NULL},
    };
    check(rows, ARRAY_LEN(rows));
}

static void names_of_go_s_driver_are_read(void **ctx)
{
    (void)ctx; /* stateless */
    static const struct row rows[] = {
        {MY, SLOTS "tcp(db:3307)/vault?parseTime=true", "db", 3307, "vault", 0, NULL},
        {MY, SLOTS "tcp(db)/vault?tls=true&timeout=1s", "db", 3306, "vault", SQL_TLS_FULL, NULL},
        {MY, SLOTS "tcp([::1]:1)/vault?tls=skip-verify", "::1", 1, "vault", SQL_TLS_ANY, NULL},
        {MY, SLOTS "tcp/vault?tls=false", "localhost", 3306, "vault", SQL_TLS_OFF, NULL},
        {MY, SLOTS "/vault?tls=preferred", "localhost", 3306, "vault", SQL_TLS_PREFER, NULL},
        {MY, "{{username}}@host:{{password}}@tcp(db)/v?multiStatements=false&loc=Local", "db", 3306,
         "v", 0, USER "@host"},
        {MY, "tcp(db)/v?charset=utf8&collation=x", "db", 3306, "v", 0, NULL},
    };
    check(rows, ARRAY_LEN(rows));
}

static void what_reaches_files_sockets_or_other_hosts_is_refused(void **ctx)
{
    (void)ctx; /* stateless */
    static const struct row rows[] = {
        {PG, "host=db hostaddr=1.2.3.4", NULL, 0, "hostaddr is refused", 0, NULL},
        {PG, "service=x", NULL, 0, "service is refused", 0, NULL},
        {PG, "servicefile=/x", NULL, 0, "servicefile is refused", 0, NULL},
        {PG, "passfile=/x", NULL, 0, "passfile is refused", 0, NULL},
        {PG, "host=/run/postgresql", NULL, 0, "sockets are refused", 0, NULL},
        {PG, "host=@abstract", NULL, 0, "sockets are refused", 0, NULL},
        {PG, "postgres://%2Frun%2Fpostgresql/d", NULL, 0, "sockets are refused", 0, NULL},
        {PG, "postgres://db/d?host=/run", NULL, 0, "sockets are refused", 0, NULL},
        {PG, "host=a,b", NULL, 0, "one host", 0, NULL},
        {PG, "host=db sslrootcert=/etc/passwd", NULL, 0, "sslrootcert: files must lie below", 0,
         NULL},
        {PG, "host=db sslkey=/etc/shadow sslcert=/etc/x", NULL, 0, "files must lie below", 0, NULL},
        {PG, "postgres://u:clear-text@db/d", NULL, 0, "write {{username}}", 0, NULL},
        {PG, "postgres://{{username}}:clear-text@db/d", NULL, 0, "write {{password}}", 0, NULL},
        {PG, "user={{username}} password=clear", NULL, 0, "write {{password}}", 0, NULL},
        {PG, "user={{password}}", NULL, 0, "write {{username}}", 0, NULL},
        {PG, "user={{username}}{{password}}", NULL, 0, "stands for the password alone", 0, NULL},
        {PG, "postgres://db:0/d", NULL, 0, "port", 0, NULL},
        {PG, "postgres://db:65536/d", NULL, 0, "port", 0, NULL},
        {PG, "postgres://db:5x/d", NULL, 0, "port", 0, NULL},
        {PG, "postgres://db/d?sslmode=maybe", NULL, 0, "sslmode: ", 0, NULL},
        {PG, "postgres://db/d?x", NULL, 0, "name=value", 0, NULL},
        {PG, "postgres://d%zz/d", NULL, 0, "percent-encoding", 0, NULL},
        {PG, "postgres://db/a%00b", NULL, 0, "percent-encoding", 0, NULL},
        {PG, "postgres://db/d?dbname=host%3Dother", NULL, 0, "dbname: a name", 0, NULL},
        {PG, "postgres://db/d?a%20b=1", NULL, 0, "malformed", 0, NULL},
        {PG, "postgres://[fd00::1/d", NULL, 0, "host is malformed", 0, NULL},
        {PG, "postgres://d\nb/d", NULL, 0, "control character", 0, NULL},
        {PG, "host='db", NULL, 0, "a quote is not closed", 0, NULL},
        {PG, "Postgres://db/d", NULL, 0, "a URL as postgres://", 0, NULL},
        {PG, "host", NULL, 0, "a URL as postgres://", 0, NULL},
        {MY, "tcp(db)", NULL, 0, "is expected", 0, NULL},
        {MY, "tcp(db)/", NULL, 0, "name of the database", 0, NULL},
        {MY, "udp(db)/v", NULL, 0, "tcp(host:3306)", 0, NULL},
        {MY, "tcp(db/v", NULL, 0, "tcp(host:3306)", 0, NULL},
        {MY, SLOTS "unix(/run/mysqld/mysqld.sock)/v", NULL, 0, "sockets are refused", 0, NULL},
        {MY, "unix/v", NULL, 0, "a socket as unix", 0, NULL},
        {MY, "tcp(db)/v?allowAllFiles=true", NULL, 0, "allowAllFiles is refused", 0, NULL},
        {MY, "tcp(db)/v?allowCleartextPasswords=1", NULL, 0, "is refused", 0, NULL},
        {MY, "tcp(db)/v?multiStatements=true", NULL, 0, "is refused", 0, NULL},
        {MY, "tcp(db)/v?tls=custom", NULL, 0, "tls: true, false", 0, NULL},
        {MY, "tcp(db)/v?timeout=x", NULL, 0, "timeout: ", 0, NULL},
        {MY, "tcp(db)/v?sql_mode=x", NULL, 0, "is not known", 0, NULL},
        {MY, "tcp(db)/v?clear@x=1", NULL, 0, "a parameter is not known", 0, NULL},
        {MY, "{{username}}:clear@tcp(db)/v", NULL, 0, "write {{password}}", 0, NULL},
        {MY, "root:{{password}}@tcp(db)/v", NULL, 0, "write {{username}}", 0, NULL},
    };
    out_sql_set_policy(&nothing);
    check(rows, ARRAY_LEN(rows));
}

static void the_configuration_allows_sockets_and_files_below_its_folders(void **ctx)
{
    (void)ctx; /* stateless */
    static const struct row sockets[] = {
        {PG, "host=/run/postgresql dbname=d", "/run/postgresql", 5432, "d", 0, NULL},
        {MY, SLOTS "unix(/run/m.sock)/v", "/run/m.sock", 3306, "v", 0, NULL},
    };
    static const struct row files[] = {
        {PG, "host=db dbname=d sslrootcert=/etc/holdfast/db/ca.pem", "db", 5432, "d", 0, NULL},
        {PG, "host=db sslrootcert=/etc/holdfast/db/../x", NULL, 0, "files must lie below", 0, NULL},
        {PG, "host=db sslrootcert=/etc/holdfast/dbx/ca.pem", NULL, 0, "files must lie below", 0,
         NULL},
        {PG, "host=db sslrootcert=/etc/holdfast/db/", NULL, 0, "files must lie below", 0, NULL},
        {PG, "host=db sslcert=/etc/holdfast/db/c.pem", NULL, 0, "given together", 0, NULL},
    };
    out_sql_set_policy(&with_sockets);
    check(sockets, ARRAY_LEN(sockets));
    out_sql_set_policy(&with_files);
    check(files, ARRAY_LEN(files));
    out_sql_set_policy(&nothing);
}

static void settings_of_a_session_are_escaped(void **ctx)
{
    (void)ctx; /* stateless */
    static const struct row row = {
        PG, "host=db search_path='a b\\\\' statement_timeout=5", "db", 5432, NULL, 0, NULL};
    struct arena arena = {0};
    struct reason why = {""};
    struct sql_name name;
    assert_status(parse(&row, &arena, &name, &why), ST_OK);
    assert_string_equal(name.options, "-c search_path=a\\ b\\\\ -c statement_timeout=5 ");
    arena_done(&arena);
}

static void drivers_are_known_by_name(void **ctx)
{
    (void)ctx; /* stateless */
    enum out_sql_driver driver;
    struct reason why = {""};
    assert_status(out_sql_driver_of("postgres", &driver, &why), ST_OK);
    assert_int_equal(driver, OUT_SQL_POSTGRES);
    assert_status(out_sql_driver_of("mysql", &driver, &why), ST_OK);
    assert_int_equal(driver, OUT_SQL_MYSQL);
    assert_status(out_sql_driver_of("mssql", &driver, &why), ST_INVALID);
    assert_non_null(strstr(why.text, "mssql is not served"));
    assert_status(out_sql_driver_of("x", &driver, &why), ST_INVALID);
}

static void each_failed_allocation_is_reported(void **ctx)
{
    (void)ctx; /* stateless */
    static const struct row row = {
        PG, "postgres://" SLOTS "db/vault?search_path=a", "db", 5432, "vault", 0, NULL};
    for (uint64_t n = 1;; n++) {
        struct arena arena = {0};
        struct reason why = {""};
        struct sql_name name;
        (void)mem_fail_nth(n);
        enum status st = parse(&row, &arena, &name, &why);
        bool failed = mem_fail_nth(0);
        arena_done(&arena);
        assert_status(st, failed ? ST_NOMEM : ST_OK);
        if (!failed)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_of_libpq_are_read),
        cmocka_unit_test(keywords_of_libpq_are_read),
        cmocka_unit_test(names_of_go_s_driver_are_read),
        cmocka_unit_test(what_reaches_files_sockets_or_other_hosts_is_refused),
        cmocka_unit_test(the_configuration_allows_sockets_and_files_below_its_folders),
        cmocka_unit_test(settings_of_a_session_are_escaped),
        cmocka_unit_test(drivers_are_known_by_name),
        cmocka_unit_test(each_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
