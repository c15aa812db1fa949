// Package nemesis holds the faults that happen to a cluster, one file each.
package nemesis

import (
	"fmt"
	"math/rand"
	"sync"
	"time"

	"holdfast/jepsen/internal/cluster"
)

// Harm is a fault that has begun.
type Harm struct {
	What  string
	Moves bool         // the cluster needs a new leader
	Undo  func() error // ends it
	Back  func()       // waits until what it undid is back; nil: at once
}

// Nemesis is one kind of fault.
type Nemesis struct {
	Name, Does string
	Links      bool          // needs network namespaces
	Orderly    bool          // nodes end in order: a load balancer hides it from clients
	Longest    time.Duration // of one fault; 0: 3 s
	Options    func(*cluster.Options)
	Prepare    func(*cluster.Options) error // as Options, where it may fail
	Setup      func(*Env) error             // before the first fault
	Acts       bool                         // a run in which it never calls acted proves nothing

	ChangesMembers bool // and so means nothing where clients do
	TakesVotes     bool // for longer than it lasts: a client that demotes others meanwhile ends the majority
	Older          bool // runs the build of tests/previous
	Rewinds        bool // undoes what clients were told: few judges allow that

	// Begin a fault; nil without an error where it cannot begin now.
	Begin func(*Env) (*Harm, error)
}

// All nemeses, in the order of the README.
var All = []*Nemesis{
	kill, killActive, killMajority, killAll, stop, roll, drain, transfer, stepDown, pause, freeze,
	isolate, halves, bridge, ring, onewayIn, onewayOut, random, flap, wake, thin,
	loss, delay, reorder, duplicate, clock, drift, strobe,
	slow, eio, enospc, torn, full, power, powerAll, nthCall, rotLog, rotSlot, rotSnap,
	fds, memory, auditFull, auditHang, sealOne, snapshot, compact, replace, churn, restore, old, none,
}

// Find a nemesis by name.
func Find(name string) (*Nemesis, error) {
	for _, n := range All {
		if n.Name == name {
			return n, nil
		}
	}
	return nil, fmt.Errorf("no nemesis %s", name)
}

// Env is what faults of one run share.
type Env struct {
	Cluster *cluster.Cluster

	mu   sync.Mutex
	rand *rand.Rand
	busy map[*cluster.Node]bool
	few  bool // copies of the state
	cuts map[string][]cluster.Cut

	counts   map[string]int // of faults that were seen to act
	problems []string
}

// NewEnv for a run.
func NewEnv(c *cluster.Cluster, seed int64) *Env {
	return &Env{Cluster: c, rand: rand.New(rand.NewSource(seed)), busy: map[*cluster.Node]bool{}, cuts: map[string][]cluster.Cut{}, counts: map[string]int{}}
}

// acted notes that a fault of this nemesis did harm.
func (e *Env) acted(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.counts[name]++
}

// Acted says how many faults of this nemesis did harm.
func (e *Env) Acted(name string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.counts[name]
}

func (e *Env) problem(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.problems = append(e.problems, fmt.Sprintf(format, args...))
}

// Problems are what nodes did that they may not do under a fault.
func (e *Env) Problems() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.problems
}

// Intn is a random number below n.
func (e *Env) Intn(n int) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.rand.Intn(n)
}

// Shuffled nodes.
func (e *Env) Shuffled() []*cluster.Node {
	nodes := append([]*cluster.Node(nil), e.Cluster.Nodes...)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	return nodes
}

// take up to count of these nodes, whose process no other fault has.
func (e *Env) take(nodes []*cluster.Node, count int) (taken []*cluster.Node) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, n := range nodes {
		if len(taken) < count && !e.busy[n] && n.Running() {
			e.busy[n] = true
			taken = append(taken, n)
		}
	}
	return taken
}

// takeOne is one node, half of the time the active one, whose process no other fault has; nil if none.
func (e *Env) takeOne() *cluster.Node {
	nodes := e.Shuffled()
	if e.Intn(2) == 0 {
		nodes, _ = e.activeFirst()
	}
	if taken := e.take(nodes, 1); len(taken) > 0 {
		return taken[0]
	}
	return nil
}

func (e *Env) giveBack(nodes []*cluster.Node) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, n := range nodes {
		delete(e.busy, n)
	}
}

// takeCopies for a fault that leaves fewer copies of the state, or fewer votes, for longer than it lasts;
// false while another one does.
func (e *Env) takeCopies() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	taken := !e.few
	e.few = true
	return taken
}

func (e *Env) giveCopiesBack() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.few = false
}

// takeOneWithCopies takes a node whose copy of the state may go, while every node votes: nil, and nothing
// taken, if there is none. Afterwards giveCopiesBack is due.
func (e *Env) takeOneWithCopies() *cluster.Node {
	if !e.takeCopies() {
		return nil
	}
	if everyNodeVotes(e) {
		if n := e.takeOne(); n != nil {
			return n
		}
	}
	e.giveCopiesBack()
	return nil
}

// activeFirst are the nodes, the active one in front of the shuffled others, and whether there is one.
func (e *Env) activeFirst() (nodes []*cluster.Node, found bool) {
	active := e.Cluster.Active()
	nodes = e.Shuffled()
	for i, n := range nodes {
		if n == active {
			nodes[0], nodes[i] = nodes[i], nodes[0]
		}
	}
	return nodes, active != nil
}

// cut replaces the links that this nemesis has cut; other nemeses keep theirs.
func (e *Env) cut(owner string, cuts []cluster.Cut) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cuts[owner] = cuts
	var all []cluster.Cut
	for _, some := range e.cuts {
		all = append(all, some...)
	}
	return e.Cluster.Sandbox().Rules(all)
}

// both directions of the links between two groups.
func between(some, others []*cluster.Node) (cuts []cluster.Cut) {
	return append(from(some, others), from(others, some)...)
}

func from(some, others []*cluster.Node) (cuts []cluster.Cut) {
	for _, a := range some {
		for _, b := range others {
			cuts = append(cuts, cluster.Cut{From: a.Number, To: b.Number})
		}
	}
	return cuts
}

// configured adds a field to the configuration of the nodes.
func configured(o *cluster.Options, name string, value any) {
	if o.Config == nil {
		o.Config = map[string]any{}
	}
	o.Config[name] = value
}

func nameOf(nodes []*cluster.Node) (text string) {
	for _, n := range nodes {
		text += " " + n.Name
	}
	return text
}

// cutting is a fault of links alone.
func (e *Env) cutting(name, what string, moves bool, cuts []cluster.Cut) (*Harm, error) {
	if err := e.cut(name, cuts); err != nil {
		return nil, err
	}
	return &Harm{What: what, Moves: moves, Undo: func() error { return e.cut(name, nil) }}, nil
}

const backPatience = 10 * time.Second

// revive waits until the node serves again, and starts it if it has ended.
func (e *Env) revive(n *cluster.Node) error {
	ask := e.Cluster.Client()
	defer ask.Close()
	healthy := 0
	for deadline := time.Now().Add(backPatience); healthy < 10 && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if !n.Running() {
			return n.Start()
		}
		if cluster.Serving(e.Cluster.Health(ask, n)) {
			healthy++
		}
	}
	return nil
}

// awaitBack waits, not for long, until these nodes serve again.
func (e *Env) awaitBack(nodes []*cluster.Node) {
	ask := e.Cluster.Client()
	defer ask.Close()
	deadline := time.Now().Add(backPatience)
	for _, n := range nodes {
		for time.Now().Before(deadline) {
			if cluster.Serving(e.Cluster.Health(ask, n)) {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// toProcesses is a fault of the processes of some nodes.
func (e *Env) toProcesses(what string, nodes []*cluster.Node, moves bool, do, undo func(*cluster.Node) error) (*Harm, error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	for _, n := range nodes {
		if err := do(n); err != nil {
			return nil, err
		}
	}
	return &Harm{What: what + nameOf(nodes), Moves: moves, Back: func() { e.awaitBack(nodes) }, Undo: func() error {
		defer e.giveBack(nodes)
		for _, n := range nodes {
			if err := undo(n); err != nil {
				return err
			}
		}
		return nil
	}}, nil
}
