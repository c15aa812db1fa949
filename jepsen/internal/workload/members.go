package workload

import (
	"time"

	"holdfast/jepsen/internal/cluster"
	"holdfast/jepsen/internal/history"
	"holdfast/jepsen/internal/judge"
)

// members: one more node joins, is removed, and comes back without its disk; others lose their vote
// and get it back. Clients read and write registers on all members.
var members = &Workload{
	Name:           "members",
	Does:           "add, remove, admit and replace of one more node, demote and promote of the others, under writes",
	Judge:          judge.Members,
	Least:          20,
	Options:        func(o *cluster.Options) { o.Spares = 1 },
	ChangesMembers: true,
	Setup: func(e *Env) error {
		e.Shared = &registers{plain: newKeys("", 4, 160)}
		if err := e.Cluster.VoteAtOnce(); err != nil {
			return err
		}
		return mount(e, "plain", "1")
	},
	Run: func(c *Client) {
		for !c.Stopped() {
			switch {
			case c.ID == 0:
				cycleMember(c, c.Cluster.Spares[0])
			case c.ID == 1:
				cycleVote(c, c.Cluster.Nodes[c.Rand.Intn(len(c.Cluster.Nodes))])
			case c.Rand.Intn(3) == 0:
				useMember(c, c.Cluster.Spares[0])
			default:
				plainOp(c, c.Shared.(*registers).plain)
			}
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

// MemberFault is the name of changes by clients among the faults.
const MemberFault = "member"

const (
	memberDrain  = 60 * time.Second // a change that has begun ends within this time
	memberSettle = 10 * time.Second // for a node that joins
)

// changeMember until it is certain; false when it did not come to that. It is noted as a fault:
// leadership may move with it.
func changeMember(c *Client, o *history.Op, what string, n *cluster.Node) bool {
	for deadline := time.Now().Add(memberDrain); time.Now().Before(deadline); sleep(20) {
		one := *o
		r := c.Do(&one, nil, n.MemberChange(what))
		if cluster.MajorityNeeds(r) {
			continue
		}
		c.Record.AddFault(history.Fault{Fault: MemberFault, What: what + " " + n.Name, Start: one.Invoke,
			Undone: c.Record.Now(), End: c.Record.Now()})
		if r.Known() && !cluster.Changed(what, r) {
			c.Wrong(&one, r)
			return false
		}
		if o.F != "" && !r.NeverSent() {
			c.Done(&one)
		}
		if r.Known() {
			return true
		}
	}
	return false
}

// cycleMember lets the node join with an empty disk, and removes it after a while.
func cycleMember(c *Client, n *cluster.Node) {
	key := judge.MemberKey(n.Name)
	admit := &history.Op{Process: c.ID, F: "admit", Key: key, Node: n.Name, Type: history.OK, Invoke: c.Record.Now()}
	if !changeMember(c, &history.Op{Process: c.ID}, "readmit", n) {
		return
	}
	if n.Renew() != nil {
		c.Wrong(admit, cluster.Reply{})
		return
	}
	for deadline := time.Now().Add(memberSettle); time.Now().Before(deadline) && !c.Stopped(); sleep(20) {
		if cluster.Serving(c.Cluster.Health(c.ask, n)) {
			break
		}
	}
	admit.Return = c.Record.Now()
	c.Done(admit)
	for range c.Rand.Intn(40) {
		if !c.Stopped() {
			sleep(50)
		}
	}
	if !changeMember(c, &history.Op{F: "remove", Key: key}, "remove-peer", n) {
		return
	}
	for range c.Rand.Intn(20) {
		if !c.Stopped() {
			sleep(50)
		}
	}
}

// cycleVote takes the vote of a node and gives it back. During a fault that takes another node away the
// members that are left with a vote are no majority, so this seldom begins then.
func cycleVote(c *Client, n *cluster.Node) {
	if c.underFault() && c.Rand.Intn(4) > 0 {
		sleep(500)
		return
	}
	if changeMember(c, &history.Op{}, "demote", n) {
		sleep(100 + c.Rand.Intn(400))
	}
	changeMember(c, &history.Op{}, "promote", n)
	for range 20 + c.Rand.Intn(20) {
		if !c.Stopped() {
			sleep(50)
		}
	}
}

// useMember asks a node that may be no member for a value: a register, or something that is always there.
func useMember(c *Client, n *cluster.Node) {
	if c.Rand.Intn(2) == 0 {
		key := c.Shared.(*registers).plain.pick(c.Rand.Intn(4), 1)
		o := &history.Op{F: "read", Key: plainPrefix + key}
		plainRead(c, o, c.Do(o, n, cluster.Request{Method: "GET", Path: "/v1/plain/" + key}))
		return
	}
	o := &history.Op{F: "serve", Key: judge.MemberKey(n.Name)}
	r := c.Do(o, n, cluster.Request{Method: "GET", Path: "/v1/sys/mounts"})
	if r.Known() && r.Status == 200 {
		o.Value = 1
	}
	c.Done(o)
}
