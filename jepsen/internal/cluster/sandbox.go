// Package cluster runs real nodes of the program, each in a network namespace of its own, and asks
// them over HTTPS.
package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// insideEnv tells a child that Enter has started it, and in what surroundings.
const insideEnv = "HOLDFAST_JEPSEN_INSIDE"

const (
	namespaces = "namespaces"
	loopback   = "loopback"
)

// Inside says whether this process runs where nodes may be started.
func Inside() bool { return os.Getenv(insideEnv) != "" }

// Enter runs this program again with the same arguments, as the first process of namespaces of its
// own for networks, processes and mounts. When that process ends, however it ends, the kernel ends
// every process in there and removes links, rules and mounts; it ends too when its parent does.
// `env` is added to its environment. Where such namespaces cannot be made, or shall not be, the child runs on the
// loopback of the machine.
func Enter(args, env []string, onLoopback bool, out *os.File) (int, error) {
	group, endGroup := openGroup()
	defer endGroup()
	command := func(where string) *exec.Cmd {
		c := exec.Command("/proc/self/exe", args...)
		c.Env = append(append(os.Environ(), env...), insideEnv+"="+where, groupEnv+"="+group)
		c.Stdin, c.Stdout, c.Stderr = nil, out, out
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		return c
	}
	c, err := command(namespaces), error(syscall.EPERM)
	if !onLoopback {
		c.SysProcAttr.Cloneflags = syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID
		err = c.Start()
	}
	if errors.Is(err, syscall.EPERM) {
		c = command(loopback)
		err = c.Start()
	}
	if err != nil {
		return 0, err
	}
	err = c.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// Sandbox is where the nodes run.
type Sandbox struct {
	Loopback bool
	scratch  string

	part      int
	links     *links     // shared by all parts
	residents *residents // of the loopback; shared by all parts
}

// links that are cut, of each part.
type links struct {
	mu   sync.Mutex
	cuts [][]Cut
}

// Part is the same sandbox for one more cluster: its cuts are beside those of the others.
func (s *Sandbox) Part() *Sandbox {
	s.links.mu.Lock()
	defer s.links.mu.Unlock()
	next := *s
	next.part = len(s.links.cuts)
	s.links.cuts = append(s.links.cuts, nil)
	return &next
}

const (
	hubAddress = "10.77.0.254"
	nfTable    = "jepsen"
)

func run(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// OpenSandbox prepares the namespaces that Enter has made: a bridge to which each node is linked.
func OpenSandbox(scratch string) (*Sandbox, error) {
	s := &Sandbox{Loopback: os.Getenv(insideEnv) != namespaces, scratch: scratch,
		links: &links{cuts: make([][]Cut, 1)}, residents: &residents{nodes: map[int]*Node{}}}
	if s.Loopback {
		return s, nil
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return nil, fmt.Errorf("private mounts: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return nil, fmt.Errorf("mount of /proc: %w", err)
	}
	if err := os.MkdirAll("/run/netns", 0o755); err != nil {
		return nil, err
	}
	if err := syscall.Mount("tmpfs", "/run/netns", "tmpfs", 0, "mode=755"); err != nil {
		return nil, fmt.Errorf("mount of /run/netns: %w", err)
	}
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"link", "add", "br0", "type", "bridge"},
		{"link", "set", "br0", "up"},
		{"addr", "add", hubAddress + "/24", "dev", "br0"},
	} {
		if err := run("ip", args...); err != nil {
			return nil, err
		}
	}
	return s, s.Rules(nil)
}

// AddHost makes the network of the node with this number, 1 and up; returns its address, and its wire
// if it shall have one.
func (s *Sandbox) AddHost(number int, wired bool) (string, *Wire, error) {
	if s.Loopback {
		return "127.0.0.1", nil, nil
	}
	ns, link := hostName(number), fmt.Sprintf("v%d", number)
	address := fmt.Sprintf("10.77.0.%d", number)
	if err := run("ip", "netns", "add", ns); err != nil {
		return "", nil, err
	}
	wire, err := (*Wire)(nil), error(nil)
	if wired {
		wire, err = openWire(link, ns)
	} else {
		err = run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", ns)
	}
	if err != nil {
		return "", nil, err
	}
	for _, args := range [][]string{
		{"link", "set", link, "master", "br0", "up"},
		{"-n", ns, "addr", "add", address + "/24", "dev", "eth0"},
		{"-n", ns, "link", "set", "eth0", "up"},
		{"-n", ns, "link", "set", "lo", "up"},
	} {
		if err := run("ip", args...); err != nil {
			return "", nil, err
		}
	}
	return address, wire, nil
}

func hostName(number int) string { return fmt.Sprintf("host%d", number) }

// Enclose is what starts a command in the network of a node.
func (s *Sandbox) Enclose(number int) []string {
	if s.Loopback {
		return nil
	}
	return []string{"nsenter", "--net=/run/netns/" + hostName(number)}
}

// Cut is a link from one node to another over which nothing passes, or so many in a hundred packets
// are lost.
type Cut struct{ From, To, Percent int }

// Rules cuts these links between nodes and no others of this part, in the forward chain of the bridge: packets are
// lost in silence. On the loopback the relays hold back what is sent. Links to the clients are never cut.
func (s *Sandbox) Rules(cuts []Cut) error {
	s.links.mu.Lock()
	defer s.links.mu.Unlock()
	if s.Loopback && slices.ContainsFunc(cuts, func(c Cut) bool { return c.Percent > 0 }) {
		return errors.New("this machine makes no namespaces: packets cannot be lost")
	}
	s.links.cuts[s.part] = cuts
	if s.Loopback {
		return nil
	}
	var text strings.Builder
	fmt.Fprintf(&text, "table bridge %s\ndelete table bridge %s\ntable bridge %s {\n", nfTable, nfTable, nfTable)
	text.WriteString("  chain forward {\n    type filter hook forward priority 0; policy accept;\n")
	for _, some := range s.links.cuts {
		for _, c := range some {
			chance := ""
			if c.Percent > 0 {
				chance = fmt.Sprintf("numgen random mod 100 < %d counter ", c.Percent)
			}
			fmt.Fprintf(&text, "    ip saddr 10.77.0.%d ip daddr 10.77.0.%d %sdrop\n", c.From, c.To, chance)
		}
	}
	text.WriteString("  }\n}\n")
	c := exec.Command("nft", "-f", "-")
	c.Stdin = strings.NewReader(text.String())
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, out)
	}
	return nil
}

var counted = regexp.MustCompile(`counter packets (\d+)`)

// Lost says how many packets the present rules with a chance have dropped.
func (s *Sandbox) Lost() (lost int, err error) {
	text, err := exec.Command("nft", "list", "table", "bridge", nfTable).Output()
	if err != nil {
		return 0, fmt.Errorf("nft list: %w", err)
	}
	for _, match := range counted.FindAllSubmatch(text, -1) {
		n, err := strconv.Atoi(string(match[1]))
		if err != nil {
			return 0, err
		}
		lost += n
	}
	return lost, nil
}

// Thin limits what reaches and what leaves a node to bits a second, like "2mbit"; "" lifts the limit.
func (s *Sandbox) Thin(number int, rate string) error {
	if s.Loopback {
		return errors.New("this machine makes no namespaces: links cannot be made thin")
	}
	for _, at := range [][]string{
		{"qdisc", "replace", "dev", fmt.Sprintf("v%d", number), "root"},
		{"-n", hostName(number), "qdisc", "replace", "dev", "eth0", "root"},
	} {
		if rate == "" {
			for i, word := range at {
				if word == "replace" {
					at[i] = "del"
				}
			}
		} else {
			at = append(at, "tbf", "rate", rate, "burst", "16kb", "latency", "400ms")
		}
		if err := run("tc", at...); err != nil {
			return err
		}
	}
	return nil
}
