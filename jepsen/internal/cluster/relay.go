package cluster

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Where no namespaces can be made, all nodes are on the loopback, and a relay stands before each: the
// others know its address alone. A link is cut by holding back what is on its way. As on a link
// whose packets are lost, neither end gets an error, and what was sent arrives when the cut ends.

const (
	relayPiece = 16 << 10
	relayLook  = 5 * time.Millisecond // between two looks at a link that is cut
)

// relay of the connections that other nodes open to one node.
type relay struct {
	sandbox  *Sandbox
	to       int
	target   string
	listener net.Listener
}

// residents are the nodes on the loopback, by number.
type residents struct {
	mu    sync.Mutex
	nodes map[int]*Node
}

func (r *residents) add(n *Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes[n.Number] = n
}

// owner is the number of the node whose process has this socket; 0: none has it.
func (r *residents) owner(inode string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for number, n := range r.nodes {
		n.mu.Lock()
		pid := 0
		if n.process != nil {
			pid = n.process.Process.Pid
		}
		n.mu.Unlock()
		if pid != 0 && holds(pid, inode) {
			return number
		}
	}
	return 0
}

// holds says whether a process has the socket. A process that has ended has none.
func holds(pid int, inode string) bool {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return false
	}
	for _, file := range files {
		if target, err := os.Readlink(file); err == nil && target == "socket:["+inode+"]" {
			return true
		}
	}
	return false
}

// openRelay before a node that listens at its cluster port; returns the port at which the others
// reach it.
func (s *Sandbox) openRelay(n *Node) (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	s.residents.add(n)
	r := &relay{sandbox: s, to: n.Number, target: fmt.Sprintf("127.0.0.1:%d", n.clusterPort), listener: l}
	go r.serve()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// serve until the harness ends.
func (r *relay) serve() {
	for {
		c, err := r.listener.Accept()
		if err != nil {
			return
		}
		go r.pass(c.(*net.TCPConn))
	}
}

// pass on one connection. What is refused beyond the relay is closed before it.
func (r *relay) pass(opened *net.TCPConn) {
	defer opened.Close()
	from := r.opener(opened)
	if from == 0 {
		return // its process has ended
	}
	r.sandbox.awaitLink(from, r.to)
	c, err := net.DialTimeout("tcp", r.target, time.Second)
	if err != nil {
		return
	}
	beyond := c.(*net.TCPConn)
	defer beyond.Close()
	var both sync.WaitGroup
	both.Add(2)
	go func() { defer both.Done(); r.sandbox.carry(beyond, opened, from, r.to) }()
	go func() { defer both.Done(); r.sandbox.carry(opened, beyond, r.to, from) }()
	both.Wait()
}

// carry what comes from one node to the other, until either closes or fails; then the other hears of it.
func (s *Sandbox) carry(to, from *net.TCPConn, sender, receiver int) {
	room := make([]byte, relayPiece)
	for {
		n, err := from.Read(room)
		s.awaitLink(sender, receiver)
		if n > 0 {
			if _, failed := to.Write(room[:n]); failed != nil {
				_ = from.Close()
				return
			}
		}
		if err == io.EOF {
			_ = to.CloseWrite()
			return
		}
		if err != nil {
			_ = to.Close()
			return
		}
	}
}

// awaitLink until it is not cut.
func (s *Sandbox) awaitLink(from, to int) {
	for s.cut(from, to) {
		time.Sleep(relayLook)
	}
}

func (s *Sandbox) cut(from, to int) bool {
	s.links.mu.Lock()
	defer s.links.mu.Unlock()
	for _, some := range s.links.cuts {
		for _, c := range some {
			if c.From == from && c.To == to {
				return true
			}
		}
	}
	return false
}

// opener is the node that opened a connection; 0: it has ended.
func (r *relay) opener(c *net.TCPConn) int {
	inode, err := socketOf(c.RemoteAddr().(*net.TCPAddr).Port, c.LocalAddr().(*net.TCPAddr).Port)
	if err != nil || inode == "0" {
		return 0
	}
	return r.sandbox.residents.owner(inode)
}

// socketOf the connection on the loopback between two ports, as its first end has it.
func socketOf(local, remote int) (string, error) {
	table, err := os.Open("/proc/net/tcp")
	if err != nil {
		return "", err
	}
	defer table.Close()
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) > 9 && portOf(words[1]) == local && portOf(words[2]) == remote {
			return words[9], nil
		}
	}
	return "", fmt.Errorf("no connection from port %d to %d: %v", local, remote, lines.Err())
}

// portOf an address of /proc/net/tcp, like 0100007F:1F90; -1: it is none.
func portOf(text string) int {
	_, port, found := strings.Cut(text, ":")
	n, err := strconv.ParseInt(port, 16, 32)
	if !found || err != nil {
		return -1
	}
	return int(n)
}
