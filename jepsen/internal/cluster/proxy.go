package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// StartProxy starts HAProxy with the shipped configuration in front of the nodes; the address for
// clients. It ends with the namespaces.
func (c *Cluster) StartProxy() (string, error) {
	if c.sandbox.Loopback {
		return "", errors.New("this machine makes no namespaces: no front")
	}
	text, err := os.ReadFile(filepath.Join(c.options.Top, "deploy", "haproxy", "haproxy.cfg"))
	if err != nil {
		return "", err
	}
	config := string(text)
	for _, n := range c.Nodes {
		config = strings.ReplaceAll(config, n.Name+".example:8200", n.Endpoint())
		config = strings.ReplaceAll(config, n.Name+".example:8500", n.Address+":8500")
		config = strings.ReplaceAll(config, n.Name+".example", "localhost")
	}
	config = strings.ReplaceAll(config, "/etc/haproxy/holdfast-ca.pem", filepath.Join(c.dir, "tls", "tls-ca.pem"))
	config = regexp.MustCompile(`(?m)^ +(user|group) .*\n`).ReplaceAllString(config, "")
	file := filepath.Join(c.dir, "haproxy.cfg")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return "", err
	}
	log, err := os.Create(filepath.Join(c.dir, "haproxy.log"))
	if err != nil {
		return "", err
	}
	defer log.Close()
	proxy := exec.Command("prlimit", "--nofile=4096:4096", "haproxy", "-db", "-f", file)
	proxy.Stdout, proxy.Stderr = log, log
	proxy.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := proxy.Start(); err != nil {
		return "", err
	}
	go func() { _ = proxy.Wait() }() // ended by the kernel, with the namespaces
	address := hubAddress + ":8200"
	ask := c.Client()
	defer ask.Close()
	err = c.await("reached by HAProxy", func() bool {
		r := ask.DoAt(address, Request{Method: "GET", Path: "/v1/sys/health", Timeout: time.Second})
		return Serving(r.Status)
	})
	if err != nil {
		return "", fmt.Errorf("%w; see %s", err, log.Name())
	}
	return address, nil
}
