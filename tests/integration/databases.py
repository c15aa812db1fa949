"""Real databases on loopback, each with a data directory of its own: PostgreSQL and MariaDB, TLS on. The
run-time user `keeper` may SELECT, INSERT and UPDATE; `maker` may create tables."""

import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile
import time

from cluster import free_ports, stopped

PATIENCE_S = 60
MAKER, KEEPER = ("maker", "made'%/@:? of \\ letters"), ("keeper", "kept\"%25/@:?& \\pass")


def run(*command, **more):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, errors="replace", **more)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def certificates(folder):
    """An authority, and a certificate of a server for localhost and 127.0.0.1."""
    conf = folder / "openssl.cnf"
    conf.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
        "-subj", "/CN=databases", "-keyout", folder / "ca.key", "-out", folder / "ca.pem")
    run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=database",
        "-keyout", folder / "server.key", "-out", folder / "server.csr")
    run("openssl", "x509", "-req", "-in", folder / "server.csr", "-CA", folder / "ca.pem", "-CAkey", folder / "ca.key",
        "-CAcreateserial", "-days", "30", "-extfile", conf, "-out", folder / "server.pem")
    return (folder / "ca.pem").read_text()


class Database:
    user = None  # the account that runs the server, where the tests run as root

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(mode=0o755)
        self.port = free_ports(1)[0]
        self.process = None
        self.ca = certificates(folder)
        self.data = folder / "data"
        self.own(folder)

    def own(self, path):
        if os.getuid() == 0:
            run("chown", "-R", self.user, path)
        (self.folder / "server.key").chmod(0o600)

    def as_user(self):
        if os.getuid() != 0:
            return []
        account = pwd.getpwnam(self.user)
        return ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]

    def start(self):
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen([*self.as_user(), *map(str, self.command())], stdout=log, stderr=log,
                                            cwd=self.folder)
        deadline = time.monotonic() + PATIENCE_S
        while not self.answers():
            assert self.process.poll() is None and time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(0.05)

    def answers(self):
        try:
            self.sql("SELECT 1")
            return True
        except AssertionError:
            return False

    def kill(self):
        self.process.kill()
        self.process.wait()

    def pids(self):
        """The server and its children, if it has some."""
        mine = str(self.process.pid)
        stats = {}
        for entry in pathlib.Path("/proc").iterdir():
            try:
                stats[entry.name] = (entry / "stat").read_text().rsplit(")", 1)[1].split()[1]
            except OSError:  # not a process, or gone meanwhile
                continue
        return [mine] + [pid for pid, parent in stats.items() if parent == mine]

    def pause(self):
        for pid in self.pids():
            os.kill(int(pid), signal.SIGSTOP)
        while not stopped(pathlib.Path(f"/proc/{self.process.pid}")):
            time.sleep(0.001)

    def resume(self):
        for pid in self.pids():
            os.kill(int(pid), signal.SIGCONT)

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.resume()
            self.process.send_signal(signal.SIGINT if self.user == "postgres" else signal.SIGTERM)
            self.process.wait(PATIENCE_S)


class Postgres(Database):
    user, driver, name = "postgres", "postgres", "pg"

    def __init__(self, folder):
        super().__init__(folder)
        self.bin = max(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))
        run(*self.as_user(), self.bin / "initdb", "-D", self.data, "-A", "trust", "-U", "root", "--no-sync")
        (self.data / "pg_hba.conf").write_text(
            "local all root trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n")
        with open(self.data / "postgresql.conf", "a") as conf:
            conf.write(f"listen_addresses='127.0.0.1'\nport={self.port}\nunix_socket_directories='{folder}'\nfsync=off\n"
                       f"ssl=on\nssl_cert_file='{folder}/server.pem'\nssl_key_file='{folder}/server.key'\n"
                       "max_connections=60\nshared_buffers=16MB\n")
        self.start()
        for name, password in (MAKER, KEEPER):
            quoted = password.replace("'", "''")
            self.sql(f"CREATE ROLE {name} LOGIN PASSWORD '{quoted}'")
        self.sql("CREATE DATABASE vault OWNER maker")
        self.sql("ALTER DEFAULT PRIVILEGES FOR ROLE maker GRANT SELECT, INSERT, UPDATE ON TABLES TO keeper;"
                 "GRANT ALL ON SCHEMA public TO maker", "vault")

    def command(self):
        return [self.bin / "postgres", "-D", self.data]

    def sql(self, text, database="postgres"):
        return run("psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", self.folder, "-p", self.port, "-U",
                   "root", "-d", database, "-c", text).strip()

    def dump(self):
        return self.sql("SELECT * FROM tokens", "vault")

    def url(self, host="localhost", more=""):
        return f"postgresql://{{{{username}}}}:{{{{password}}}}@{host}:{self.port}/vault{more}"

    def set_password(self, name, password):
        self.sql(f"ALTER ROLE {name} PASSWORD '" + password.replace("'", "''") + "'")
        self.sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename='{name}'")

    def read_only(self, on):
        self.sql(f"ALTER SYSTEM SET default_transaction_read_only = {'on' if on else 'off'}")
        self.sql("SELECT pg_reload_conf()")


class MariaDB(Database):
    user, driver, name = "mysql", "mysql", "my"

    def __init__(self, folder):
        super().__init__(folder)
        self.socket = folder / "socket"
        run(*self.as_user(), "mariadb-install-db", "--no-defaults", f"--datadir={self.data}", "--skip-test-db",
            "--auth-root-authentication-method=normal")
        self.start()
        for name, password in (MAKER, KEEPER):
            quoted = password.replace("\\", "\\\\").replace("'", "''")
            self.sql(f"CREATE USER {name}@'127.0.0.1' IDENTIFIED BY '{quoted}';"
                     f"CREATE USER {name}@localhost IDENTIFIED BY '{quoted}'")
        self.sql("CREATE DATABASE vault")
        for host in ("'127.0.0.1'", "localhost"):
            self.sql(f"GRANT ALL ON vault.* TO maker@{host}; GRANT SELECT, INSERT, UPDATE ON vault.* TO keeper@{host}")

    def command(self):
        return ["mariadbd", "--no-defaults", f"--datadir={self.data}", f"--port={self.port}", "--bind-address=127.0.0.1",
                f"--socket={self.socket}", f"--ssl-cert={self.folder}/server.pem", f"--ssl-key={self.folder}/server.key",
                f"--ssl-ca={self.folder}/ca.pem", "--require-secure-transport=ON", "--innodb-buffer-pool-size=16M",
                "--innodb-flush-log-at-trx-commit=2", f"--pid-file={self.folder}/pid", "--skip-log-bin"]

    def sql(self, text, database="mysql"):
        return run("mariadb", "--no-defaults", "-N", "-B", "-u", "root", "-S", self.socket, database, "-e", text).strip()

    def dump(self):
        return self.sql("SELECT * FROM tokens", "vault")

    def url(self, host="localhost", more=""):
        return f"{{{{username}}}}:{{{{password}}}}@tcp({host}:{self.port})/vault?parseTime=true{more}"

    def set_password(self, name, password):
        quoted = password.replace("\\", "\\\\").replace("'", "''")
        for host in ("'127.0.0.1'", "localhost"):
            self.sql(f"ALTER USER {name}@{host} IDENTIFIED BY '{quoted}'")
        for line in self.sql(f"SELECT id FROM information_schema.processlist WHERE user='{name}'").split():
            self.sql(f"KILL {line}")

    def read_only(self, on):
        self.sql(f"SET GLOBAL read_only = {int(on)}")


class Databases:
    """One of each, as long as the `with` block."""

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-databases-", dir="/tmp"))
        self.folder.chmod(0o755)
        self.all = []
        try:
            for kind in (Postgres, MariaDB):
                self.all.append(kind(self.folder / kind.driver))
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind, value, trace):
        for database in self.all:
            database.stop()
        shutil.rmtree(self.folder, ignore_errors=True)  # a server may still remove files of its own
