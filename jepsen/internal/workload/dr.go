package workload

import (
	"sync/atomic"
	"time"

	"holdfast/jepsen/internal/cluster"
	"holdfast/jepsen/internal/history"
	"holdfast/jepsen/internal/judge"
)

// dr: lists on the primary of a pair of clusters. After the faults, which hit either cluster, the
// secondary takes over while clients go on: in order, or because the primary is killed. The former
// primary then follows.
var dr = &Workload{
	Name:    "dr",
	Does:    "append on a pair of clusters, and a failover from one to the other under load",
	Newer:   true,
	Judge:   judge.DR,
	Least:   10,
	Options: func(o *cluster.Options) { o.Pair = true },
	Setup: func(e *Env) error {
		e.Shared = &pair{keys: newKeys("list", 4, 600), first: e.Cluster, planned: e.Seed%2 == 0}
		if err := mountVersions(e, "lists"); err != nil {
			return err
		}
		_, err := setup(e, cluster.Request{Method: "POST", Path: "/v1/sys/replication/dr/primary/settings",
			Body: map[string]any{"sync": e.Seed/2%2 == 0, "sync_timeout_ms": 200}})
		return err
	},
	Run: func(c *Client) {
		p := c.Shared.(*pair)
		for !c.Stopped() {
			if c.ID == 0 {
				lookAtRoles(c, p)
				continue
			}
			side, nodes := p.writes(c)
			n := nodes[c.Rand.Intn(len(nodes))]
			key := p.keys.pick(c.Rand.Intn(4), 1)
			read := &history.Op{F: "read", Key: key, Text: side}
			version, known := listDone(c, read, c.Do(read, n, listRead(key)))
			if known && c.Rand.Intn(3) > 0 {
				appendTo(c, &history.Op{Key: key, Text: side}, n, read.Values, version)
			}
		}
	},
	Last: func(e *Env) error { return e.Shared.(*pair).failover(e) },
	Final: func(c *Client, n *cluster.Node) error {
		for _, key := range c.Shared.(*pair).keys.every() {
			o := &history.Op{F: "read", Key: key, Text: judge.Second}
			r, err := c.Settled(o, n, listRead(key))
			if err != nil {
				return err
			}
			listDone(c, o, r)
		}
		return nil
	},
}

type pair struct {
	keys    *keys
	first   *cluster.Cluster
	planned bool
	over    atomic.Bool // the second cluster writes
}

// writes names the cluster that writes. Now and then, after a planned failover, the former one is
// asked too.
func (p *pair) writes(c *Client) (side string, nodes []*cluster.Node) {
	if p.over.Load() && !(p.planned && c.Rand.Intn(10) == 0) {
		return judge.Second, p.first.Other.Nodes
	}
	return judge.First, p.first.Nodes
}

// lookAtRoles of all nodes. A token that ends soon gives the cluster that writes a duty, which the
// other one must leave alone.
func lookAtRoles(c *Client, p *pair) {
	_, nodes := p.writes(c)
	c.ask.Do(nodes[c.Rand.Intn(len(nodes))], cluster.Request{Method: "POST", Path: "/v1/auth/token/create",
		Body: map[string]any{"ttl": "1s"}, Timeout: clientTimeout})
	for _, side := range []string{judge.First, judge.Second} {
		nodes := p.first.Nodes
		if side == judge.Second {
			nodes = p.first.Other.Nodes
		}
		for _, n := range nodes {
			o := &history.Op{Process: c.ID, F: "role", Node: n.Name, Text: side, Type: history.OK, Invoke: c.Record.Now()}
			s, err := c.ask.DR(n, clientTimeout)
			if o.Return = c.Record.Now(); err != nil {
				continue // the node is away
			}
			o.Arg, o.Version, o.Names = s.Epoch, s.Version, []string{s.Mode, s.State}
			if s.Mode == "primary" && s.State == "running" { // not: superseded
				o.Names = append(o.Names, judge.Writes)
			}
			if s.Corrupted || s.Repaired > 0 { // nothing damages files here, so the stream did
				o.Names = append(o.Names, judge.Diverged)
			}
			c.Done(o)
		}
	}
	sleep(100)
}

// stragglers is the time that writes go on after the secondary was last seen to stream.
const stragglers = 300 * time.Millisecond

func (p *pair) failover(e *Env) error {
	a, b := p.first, p.first.Other
	if err := b.AwaitFollowing(); err != nil {
		return err
	}
	time.Sleep(stragglers)
	o := &history.Op{Process: -1, F: "failover", Type: history.OK, Text: judge.Forced, Invoke: e.Record.Now()}
	if p.planned {
		o.Text = judge.Planned
		if err := a.Demote(); err != nil {
			return err
		}
		if err := b.AwaitVersion(a.DRVersion()); err != nil {
			return err
		}
	} else {
		if err := p.cutOff(); err != nil {
			return err
		}
		for _, n := range a.Nodes {
			if err := n.Kill(); err != nil {
				return err
			}
		}
	}
	if err := b.Promote(!p.planned); err != nil {
		return err
	}
	p.over.Store(true)
	o.Return = e.Record.Now()
	e.Record.Add(o)
	if !p.planned {
		if err := p.heal(); err != nil {
			return err
		}
		for _, n := range a.Nodes {
			if err := n.Start(); err != nil {
				return err
			}
		}
	}
	return a.Return()
}

// cutOff the secondary for a moment: what the primary acknowledges then is lost with it.
func (p *pair) cutOff() error {
	var cuts []cluster.Cut
	for _, a := range p.first.Nodes {
		for _, b := range p.first.Other.Nodes {
			cuts = append(cuts, cluster.Cut{From: a.Number, To: b.Number})
		}
	}
	defer time.Sleep(stragglers)
	return p.first.Sandbox().Rules(cuts)
}

func (p *pair) heal() error {
	return p.first.Sandbox().Rules(nil)
}
