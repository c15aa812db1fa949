package workload

import (
	"time"

	"holdfast/jepsen/internal/cluster"
	"holdfast/jepsen/internal/history"
	"holdfast/jepsen/internal/judge"
)

func sleep(ms int) { time.Sleep(time.Duration(ms) * time.Millisecond) }

// seal: one operator a node seals and unseals it, and one more makes new key shares, while clients read
// and write registers.
var seal = &Workload{
	Name:    "seal",
	Does:    "seal and unseal of each node while secrets are read and written; rotation of the key ring; new key shares",
	Judge:   judge.Seal,
	Least:   20,
	Options: func(o *cluster.Options) { o.Shamir = true },
	Opens:   true,
	Setup: func(e *Env) error {
		e.Shared = &sealed{registers: registers{plain: newKeys("", 4, 160)}, shares: newShares(e.Cluster.Share())}
		return mount(e, "plain", "1")
	},
	Lacks: func(h *history.History) []string { return lacks(rekeysDone(h), rekeysLeast) },
	Run: func(c *Client) {
		if c.ID == len(c.Cluster.Nodes) {
			for !c.Stopped() {
				makeShares(c, c.Shared.(*sealed).shares)
				sleep(300 + c.Rand.Intn(1000))
			}
			return
		}
		if c.ID < len(c.Cluster.Nodes) {
			for !c.Stopped() {
				sealAndUnseal(c, c.Cluster.Nodes[c.ID])
			}
			unsealOnly(c, c.Cluster.Nodes[c.ID])
			return
		}
		for !c.Stopped() {
			if c.Rand.Intn(3) == 0 {
				plainOp(c, c.Shared.(*sealed).plain)
			} else {
				serve(c)
			}
			sleep(30) // quiet times would outweigh faults, in which hardly anything is answered
		}
	},
	Final: func(c *Client, n *cluster.Node) error {
		for _, key := range c.Shared.(*sealed).plain.every() {
			o := &history.Op{F: "read", Key: plainPrefix + key}
			r, err := c.Settled(o, n, cluster.Request{Method: "GET", Path: "/v1/plain/" + key})
			if err != nil {
				return err
			}
			plainRead(c, o, r)
		}
		return tryShares(c, n, c.Shared.(*sealed).shares)
	},
}

type sealed struct {
	registers
	shares *shares
}

// sealAndUnseal a node once. A node that was started again is sealed, too.
func sealAndUnseal(c *Client, n *cluster.Node) {
	o := &history.Op{F: "seal", Key: judge.SealKey(n.Name)}
	if c.Rand.Intn(3) == 0 {
		c.ask.Do(n, cluster.Request{Method: "POST", Path: "/v1/sys/rotate"})
	}
	r := c.Do(o, n, cluster.Request{Method: "PUT", Path: "/v1/sys/seal"})
	if r.Known() && r.Status == 204 {
		c.Done(o)
		sleep(100 + c.Rand.Intn(200))
	}
	for !c.Stopped() && !unsealOnly(c, n) {
		sleep(50)
	}
	for range 50 { // unsealed for a time, but a node that was killed is unsealed soon
		if c.Stopped() || isSealed(c, n) {
			return
		}
		sleep(30)
	}
}

func isSealed(c *Client, n *cluster.Node) bool {
	r := c.ask.Do(n, cluster.Request{Method: "GET", Path: "/v1/sys/seal-status", Bare: true, Timeout: time.Second})
	var body struct{ Sealed bool }
	return r.Status == 200 && r.JSON(&body) == nil && body.Sealed
}

// unsealOnly by a share that may be in force, the newest first.
func unsealOnly(c *Client, n *cluster.Node) bool {
	for _, s := range c.Shared.(*sealed).shares.inForce() {
		if unsealBy(c, n, s) {
			return true
		}
	}
	return false
}

func unsealBy(c *Client, n *cluster.Node, s share) bool {
	o := &history.Op{Process: c.ID, F: "unseal", Key: judge.SealKey(n.Name), Node: n.Name, Type: history.OK}
	o.Invoke = c.Record.Now()
	r := c.Cluster.UnsealBy(c.ask, n, s.text)
	o.Return = c.Record.Now()
	if r.NeverSent() {
		return false
	}
	var body struct{ Sealed bool }
	good := r.Status == 200 && r.JSON(&body) == nil && !body.Sealed
	switch {
	case r.Status == 400 || r.Status == 503:
		o.Type = history.Fail
	case !good:
		o.Type, o.Return = history.Info, history.Open
	}
	c.Done(o)
	return good
}

// serve asks one node for a value.
func serve(c *Client) {
	n := c.Node()
	o := &history.Op{F: "serve", Key: judge.SealKey(n.Name)}
	r := c.Do(o, n, cluster.Request{Method: "GET", Path: "/v1/sys/mounts"})
	if r.Known() && r.Status == 200 {
		o.Value = 1
	}
	c.Done(o)
}
