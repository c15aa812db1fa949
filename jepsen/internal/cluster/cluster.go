package cluster

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Election is the election timeout of the nodes: the default of the program.
const Election = time.Second

const patience = 60 * time.Second // for what takes a slow machine long

// Options of a cluster.
type Options struct {
	Size    int
	Program string
	Top     string // of the source tree
	Dir     string // for all its files
	Shamir  bool   // sealed by one key share, which Unseal gives
	Config  map[string]any
	Clocks  bool // the wall clock of each node can be set, for itself alone
	Spares  int  // nodes with certificates that are no members and do not run
	Pair    bool // a second cluster of the same size, which Follow makes the secondary of the first

	side   string // "" or, of the second, otherSide
	Faults bool   // calls for the disk can fail: Node.SetDisk
	Disk   Disk   // the data of each node lie on a file system of their own
	Wire   bool   // frames to and from each node pass the harness: Node.Wire

	Unaudited bool     // no audit device
	Programs  []string // of the first nodes, where it is another one
}

// otherSide is the start of the names of a second cluster's nodes.
const otherSide = "other"

// Cluster is some nodes that were initialised together.
type Cluster struct {
	Nodes  []*Node
	Token  string   // root's
	Other  *Cluster // of a pair
	Spares []*Node

	options   Options
	program   string
	dir       string
	sandbox   *Sandbox
	tls       *tls.Config
	share     string // of the key or, where the nodes unseal by themselves, of the recovery key
	baseFiles int
	hasty     bool
}

// New makes the files of a cluster; nothing runs yet.
func New(o Options, s *Sandbox) (*Cluster, error) {
	c := &Cluster{options: o, program: o.Program, dir: o.Dir, sandbox: s}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, err
	}
	args := []string{"cluster", "bootstrap", "-out", filepath.Join(c.dir, "tls")}
	for i := 1; i <= o.Size; i++ {
		number := i
		if o.side != "" {
			number += o.Size
		}
		n, err := c.newNode(fmt.Sprintf("%s%d", o.names(), i), number)
		if err != nil {
			return nil, err
		}
		c.Nodes = append(c.Nodes, n)
		args = append(args, n.Name+","+n.Address)
	}
	if out, err := exec.Command(c.program, args...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("cluster bootstrap: %w: %s", err, out)
	}
	for i := 1; i <= o.Spares; i++ {
		number := 2*o.Size + i // behind the nodes of a pair
		if o.side != "" {
			number += o.Spares
		}
		n, err := c.newNode(fmt.Sprintf("spare%d", i), number)
		if err != nil {
			return nil, err
		}
		if out, err := exec.Command(c.program, "cluster", "add", "-out", filepath.Join(c.dir, "tls"), n.Name).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("cluster add: %w: %s", err, out)
		}
		c.Spares = append(c.Spares, n)
	}
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(c.dir, "seal.key"), key, 0o600); err != nil {
		return nil, err
	}
	authority, err := os.ReadFile(filepath.Join(c.dir, "tls", "tls-ca.pem"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("no certificate in tls-ca.pem")
	}
	c.tls = &tls.Config{RootCAs: pool, ServerName: "localhost", ClientSessionCache: tls.NewLRUClientSessionCache(64)}
	for _, n := range c.all() {
		if err := n.writeConfig(); err != nil {
			return nil, err
		}
		if err := n.SetClock(0); err != nil {
			return nil, err
		}
	}
	if o.Pair {
		o.Pair, o.side, o.Dir = false, otherSide, filepath.Join(o.Dir, otherSide)
		if c.Other, err = New(o, s.Part()); err != nil {
			return nil, err
		}
		c.Other.Other = c
		authority, err := os.ReadFile(filepath.Join(c.Other.dir, "tls", "tls-ca.pem"))
		if err != nil {
			return nil, err
		}
		pool.AppendCertsFromPEM(authority) // one client may ask both
		c.Other.tls = c.tls
	}
	return c, nil
}

// newNode makes its folder and its network.
func (c *Cluster) newNode(name string, number int) (*Node, error) {
	n := &Node{Name: name, Number: number, cluster: c, clientPort: 8200, clusterPort: 8201, program: c.program,
		Dir: filepath.Join(c.dir, name)}
	if number <= len(c.options.Programs) {
		n.program = c.options.Programs[number-1]
	}
	err := os.MkdirAll(n.Dir, 0o700)
	if err != nil {
		return nil, err
	}
	if n.Address, n.Wire, err = c.sandbox.AddHost(number, c.options.Wire); err != nil {
		return nil, err
	}
	if err = n.openDisk(); err != nil {
		return nil, err
	}
	n.meshPort = n.clusterPort
	if c.sandbox.Loopback {
		if n.clientPort, n.clusterPort, err = freePorts(); err == nil {
			n.meshPort, err = c.sandbox.openRelay(n)
		}
	}
	return n, err
}

func (o Options) names() string {
	if o.side != "" {
		return o.side
	}
	return "node"
}

func freePorts() (a, b int, err error) {
	for _, port := range []*int{&a, &b} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, 0, err
		}
		defer l.Close()
		*port = l.Addr().(*net.TCPAddr).Port
	}
	return a, b, nil
}

// Authority is the certificate by which the cluster knows its nodes, and its key.
func (c *Cluster) Authority() (certificate, key string, err error) {
	first, err := os.ReadFile(filepath.Join(c.dir, "tls", "ca.pem"))
	if err != nil {
		return "", "", err
	}
	second, err := os.ReadFile(filepath.Join(c.dir, "tls", "ca-key.pem"))
	return string(first), string(second), err
}

// Sandbox is where the nodes run.
func (c *Cluster) Sandbox() *Sandbox { return c.sandbox }

// Start all nodes, initialise the cluster, and wait until it serves.
func (c *Cluster) Start() error {
	for _, n := range c.Nodes {
		if err := n.Start(); err != nil {
			return err
		}
	}
	ask := c.Client()
	defer ask.Close()
	if err := c.await("formed", func() bool {
		for _, n := range c.Nodes {
			r := ask.Do(n, Request{Method: "GET", Path: "/v1/sys/health"})
			var health struct{ Errors []string }
			if r.Status != 501 || r.JSON(&health) != nil || len(health.Errors) > 0 {
				return false
			}
		}
		return true
	}); err != nil {
		return err
	}
	body := any(map[string]any{})
	if c.options.Shamir {
		body = map[string]any{"secret_shares": 1, "secret_threshold": 1}
	} else if c.Other != nil {
		body = map[string]any{"recovery_shares": 1, "recovery_threshold": 1}
	}
	r := ask.Do(c.Nodes[0], Request{Method: "PUT", Path: "/v1/sys/init", Body: body})
	if r.Status != 200 {
		return fmt.Errorf("init answered %d %s", r.Status, r.Body)
	}
	var told struct {
		RootToken    string   `json:"root_token"`
		Keys         []string `json:"keys"`
		RecoveryKeys []string `json:"recovery_keys"`
	}
	if err := json.Unmarshal(r.Body, &told); err != nil {
		return err
	}
	c.Token = told.RootToken
	if c.options.Shamir {
		c.share = told.Keys[0]
		for _, n := range c.Nodes {
			if err := c.await("unsealed", func() bool { return c.Unseal(ask, n).Status == 200 }); err != nil {
				return err
			}
		}
	}
	if c.Other != nil {
		c.share = told.RecoveryKeys[0]
	}
	if err := c.AwaitUp(); err != nil || c.Other == nil || c.options.side != "" {
		return err
	}
	return c.Other.Start()
}

// Hasten lets nodes give a request up after a second. Each starts again; before, all has the time that it
// takes on a slow machine.
func (c *Cluster) Hasten() error {
	c.hasty = true
	for _, n := range c.Nodes {
		if err := n.writeConfig(); err != nil {
			return err
		}
		if err := n.Stop(); err != nil {
			return err
		}
		if err := n.Start(); err != nil {
			return err
		}
	}
	return c.AwaitUp()
}

// Unseal gives the node the key share.
func (c *Cluster) Unseal(ask *Client, n *Node) Reply { return c.UnsealBy(ask, n, c.share) }

// UnsealBy gives the node another share: clients may have made one in place of the first.
func (c *Cluster) UnsealBy(ask *Client, n *Node, share string) Reply {
	return ask.Do(n, Request{Method: "PUT", Path: "/v1/sys/unseal", Body: map[string]any{"key": share}, Bare: true})
}

// Share is the key share that the cluster began with.
func (c *Cluster) Share() string { return c.share }

func (c *Cluster) await(what string, holds func() bool) error {
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("the cluster is not %s after %v", what, patience)
		}
	}
	return nil
}

// Health of a node, 0 if it does not answer soon.
func (c *Cluster) Health(ask *Client, n *Node) int {
	r := ask.Do(n, Request{Method: "GET", Path: "/v1/sys/health", Timeout: time.Second})
	return r.Status
}

// Serving says whether this is the health of a node that does all that its role allows: a secondary of
// a pair serves no clients.
func Serving(health int) bool {
	return health == 200 || health == 429 || health == 473 || health == 472
}

// AwaitUp waits until every node serves and exactly one is active.
func (c *Cluster) AwaitUp() error {
	ask := c.Client()
	defer ask.Close()
	var have []int
	err := c.await("up", func() bool {
		active := 0
		have = have[:0]
		for _, n := range c.Nodes {
			health := c.Health(ask, n)
			have = append(have, health)
			if !Serving(health) {
				return false
			}
			if health == 200 {
				active++
			}
		}
		for _, n := range c.Spares {
			if n.Running() && c.Health(ask, n) == 200 {
				active++
			}
		}
		return active == 1
	})
	if err != nil {
		return fmt.Errorf("%w: health is %v", err, have)
	}
	return nil
}

// Active is the node that says that it is active, nil if none does now.
func (c *Cluster) Active() *Node {
	ask := c.Client()
	defer ask.Close()
	for _, n := range c.Nodes {
		if n.Running() && c.Health(ask, n) == 200 {
			return n
		}
	}
	return nil
}

// Elections that nodes of the cluster have won so far, by their logs.
func (c *Cluster) Elections() (count int) {
	for _, n := range c.Nodes {
		count += strings.Count(n.Log(), "became leader (term")
	}
	return count
}

// End kills all nodes, also those of the other cluster.
func (c *Cluster) End() {
	for _, n := range c.all() {
		_ = n.Kill()      // the namespace ends what is left
		_ = n.closeDisk() // and takes mounts along
	}
}

// all nodes: the spare ones, and those of the other cluster of a pair.
func (c *Cluster) all() []*Node {
	all := append(append([]*Node(nil), c.Nodes...), c.Spares...)
	if c.Other != nil {
		all = append(all, c.Other.Nodes...)
	}
	return all
}
