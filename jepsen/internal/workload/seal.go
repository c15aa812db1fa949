package workload

import (
	"time"

	"holdfast/jepsen/internal/cluster"
	"holdfast/jepsen/internal/history"
	"holdfast/jepsen/internal/judge"
)

func sleep(ms int) { time.Sleep(time.Duration(ms) * time.Millisecond) }

// seal: one operator a node seals and unseals it, while clients read and write registers.
var seal = &Workload{
	Name:    "seal",
	Does:    "seal and unseal of each node while secrets are read and written; rotation of the key ring",
	Judge:   judge.Seal,
	Least:   20,
	Options: func(o *cluster.Options) { o.Shamir = true },
	Opens:   true,
	Setup: func(e *Env) error {
		e.Shared = &registers{plain: newKeys("", 4, 160)}
		return mount(e, "plain", "1")
	},
	Run: func(c *Client) {
		if c.ID < len(c.Cluster.Nodes) {
			for !c.Stopped() {
				sealAndUnseal(c, c.Cluster.Nodes[c.ID])
			}
			unsealOnly(c, c.Cluster.Nodes[c.ID])
			return
		}
		for !c.Stopped() {
			if c.Rand.Intn(3) == 0 {
				plainOp(c, c.Shared.(*registers).plain)
			} else {
				serve(c)
			}
			sleep(30) // quiet times would outweigh faults, in which hardly anything is answered
		}
	},
	Final: func(c *Client, n *cluster.Node) error {
		for _, key := range c.Shared.(*registers).plain.every() {
			o := &history.Op{F: "read", Key: plainPrefix + key}
			r, err := c.Settled(o, n, cluster.Request{Method: "GET", Path: "/v1/plain/" + key})
			if err != nil {
				return err
			}
			plainRead(c, o, r)
		}
		return nil
	},
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
		if c.Stopped() || sealed(c, n) {
			return
		}
		sleep(30)
	}
}

func sealed(c *Client, n *cluster.Node) bool {
	r := c.ask.Do(n, cluster.Request{Method: "GET", Path: "/v1/sys/seal-status", Bare: true, Timeout: time.Second})
	var body struct{ Sealed bool }
	return r.Status == 200 && r.JSON(&body) == nil && body.Sealed
}

func unsealOnly(c *Client, n *cluster.Node) bool {
	o := &history.Op{Process: c.ID, F: "unseal", Key: judge.SealKey(n.Name), Node: n.Name, Type: history.OK}
	o.Invoke = c.Record.Now()
	r := c.Cluster.Unseal(c.ask, n)
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
