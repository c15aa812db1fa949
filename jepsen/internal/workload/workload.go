// Package workload holds what clients do to a cluster, one file each, and how it is judged.
package workload

import (
	"fmt"
	"math/rand"
	"slices"
	"sync/atomic"
	"time"

	"holdfast/jepsen/internal/cluster"
	"holdfast/jepsen/internal/history"
	"holdfast/jepsen/internal/judge"
)

// Workload is one kind of load.
type Workload struct {
	Name, Does string
	Judge      func(*history.History) judge.Verdict
	Options    func(*cluster.Options)
	Opens      bool // clients are what unseals the nodes
	// Make what the clients need; called once, on a cluster without faults.
	Setup func(*Env) error
	// Run is one client, until Stopped.
	Run func(*Client)
	// Last happens after the faults, while clients go on; nil: nothing.
	Last func(*Env) error
	// Final reads what is there on one node after all faults.
	Final func(*Client, *cluster.Node) error
	// Least operations with a known outcome a second; a run with fewer means nothing.
	Least float64
	// Lacks names what has not happened often enough for a run to mean anything; nil: Least says all.
	Lacks func(*history.History) []string
	// ChangesMembers says that clients do, so that no nemesis may.
	ChangesMembers bool
	// Rewinds says that the judge allows that a restore undoes what clients were told.
	Rewinds bool
	// Newer says that it needs what the build of tests/previous lacks.
	Newer bool
	// Hasty nodes give a request up after a second, and say what they know of its outcome.
	Hasty bool
}

// All workloads, in the order of the README.
var All = []*Workload{register, appendLists, set, tokens, once, authority, create, move, seal, watch, dr, restore, members,
	quota, audit}

// Find a workload by name.
func Find(name string) (*Workload, error) {
	for _, w := range All {
		if w.Name == name {
			return w, nil
		}
	}
	return nil, fmt.Errorf("no workload %s", name)
}

// lacks names the kinds that are fewer than least, in order.
func lacks(kinds map[string]int, least int) (few []string) {
	for kind, n := range kinds {
		if n < least {
			few = append(few, fmt.Sprintf("%s: %d of %d", kind, n, least))
		}
	}
	slices.Sort(few)
	return few
}

// Env is what all clients of a run share.
type Env struct {
	Cluster *cluster.Cluster
	Record  *history.Recorder
	Marker  string // stands in every secret that clients store
	Seed    int64  // of the run
	Front   string // address of a load balancer; "": clients ask the nodes
	Shared  any    // of the workload

	stopped, slow atomic.Bool
	value, faults atomic.Int64
}

// SetSlow says whether clients take their time. Where a fault leaves hardly an answer, what they do
// between the faults would outweigh it.
func (e *Env) SetSlow(slow bool) { e.slow.Store(slow) }

// FaultBegins and FaultEnds tell clients of a nemesis.
func (e *Env) FaultBegins() { e.faults.Add(1) }
func (e *Env) FaultEnds()   { e.faults.Add(-1) }

func (e *Env) underFault() bool { return e.faults.Load() > 0 }

// Stop the clients.
func (e *Env) Stop() { e.stopped.Store(true) }

// Unique is a value that nobody else gets.
func (e *Env) Unique() int64 { return e.value.Add(1) }

// secret is the body that stores a value.
func (e *Env) secret(value int64) map[string]any {
	return map[string]any{"v": value, "s": fmt.Sprintf("%s-%d", e.Marker, value)}
}

// Client is one process of the history.
type Client struct {
	*Env
	ID      int
	Rand    *rand.Rand
	Patient bool // waits so long that a hasty node gives the request up first
	ask     *cluster.Client
}

// NewClient has connections and random numbers of its own.
func NewClient(e *Env, id int, seed int64) *Client {
	return &Client{Env: e, ID: id, Rand: rand.New(rand.NewSource(seed + int64(id)*7919)), ask: e.Cluster.Client()}
}

// Close the connections.
func (c *Client) Close() { c.ask.Close() }

// Stopped says whether the run is over.
func (c *Client) Stopped() bool { return c.stopped.Load() }

// Node is the client's own one most of the time, else one by chance: so clients of the others go on
// while one node does not answer.
func (c *Client) Node() *cluster.Node {
	if c.Rand.Intn(5) > 0 {
		return c.Cluster.Nodes[c.ID%len(c.Cluster.Nodes)]
	}
	return c.Cluster.Nodes[c.Rand.Intn(len(c.Cluster.Nodes))]
}

// Do makes the request at n, nil for one by chance, and notes in o when it was made and whether its
// outcome is known. The caller interprets the reply, then calls Done.
func (c *Client) Do(o *history.Op, n *cluster.Node, q cluster.Request) cluster.Reply {
	if n == nil {
		n = c.Node()
	}
	address := n.Endpoint()
	o.Process, o.Node = c.ID, n.Name
	if c.slow.Load() && !o.Final {
		time.Sleep(slowly)
	}
	if c.Front != "" && !o.Final {
		address, o.Node = c.Front, "front"
	}
	switch {
	case q.Timeout != 0 || o.Final:
	case c.Patient:
		q.Timeout = patientTimeout
	default:
		q.Timeout = clientTimeout
	}
	o.Invoke = c.Record.Now()
	reply := c.ask.DoAt(address, q)
	o.Return = c.Record.Now()
	o.Status = reply.Status
	switch {
	case reply.Known():
		o.Type = history.OK
	case reply.NeverSent():
		o.Type, o.Error = history.Fail, reply.What()
	default:
		o.Type, o.Return, o.Error = history.Info, history.Open, reply.What()
	}
	if o.Type != history.OK && !o.Final {
		time.Sleep(20 * time.Millisecond)
	}
	return reply
}

// Done puts the operation into the history.
func (c *Client) Done(o *history.Op) { c.Record.Add(o) }

// Wrong notes an answer that no operation of the workload may get.
func (c *Client) Wrong(o *history.Op, r cluster.Reply) {
	o.Error = fmt.Sprintf("%s of %s answered %s", o.F, o.Key, r.What())
	o.F = judge.Unexpected
	c.Record.Add(o)
}

// clientTimeout is short: a client that waits for a node which is cut off does nothing else. The
// request may take effect later.
const clientTimeout = 500 * time.Millisecond

const patientTimeout = 3 * time.Second

const slowly = 100 * time.Millisecond

// Root makes a request of the administrator until its outcome is known, on a node by chance; nil when
// the run is over first.
func (c *Client) Root(q cluster.Request) *cluster.Reply {
	for !c.Stopped() {
		q.Timeout = clientTimeout
		if r := c.ask.Do(c.Node(), q); r.Known() {
			return &r
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

// finalPatience is how long a node that serves may take to answer after the faults.
const finalPatience = 30 * time.Second

// Settled repeats a final read until it is answered.
func (c *Client) Settled(o *history.Op, n *cluster.Node, q cluster.Request) (cluster.Reply, error) {
	o.Final = true
	for deadline := time.Now().Add(finalPatience); ; time.Sleep(50 * time.Millisecond) {
		r := c.Do(o, n, q)
		if r.Known() {
			o.Error = ""
			return r, nil
		}
		if time.Now().After(deadline) {
			return r, fmt.Errorf("%s does not answer %s %s after the faults: %s", n.Name, q.Method, q.Path, r.What())
		}
	}
}

// setup makes a request that must succeed on a cluster without faults.
func setup(e *Env, q cluster.Request, statuses ...int) (cluster.Reply, error) {
	ask := e.Cluster.Client()
	defer ask.Close()
	r := ask.Do(e.Cluster.Nodes[0], q)
	for _, status := range append(statuses, 200, 204) {
		if r.Status == status {
			return r, nil
		}
	}
	return r, fmt.Errorf("%s %s: %s", q.Method, q.Path, r.What())
}

func mount(e *Env, path, version string) error {
	_, err := setup(e, cluster.Request{Method: "POST", Path: "/v1/sys/mounts/" + path,
		Body: map[string]any{"type": "kv", "options": map[string]any{"version": version}}})
	return err
}
