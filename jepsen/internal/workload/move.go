package workload

import (
	"fmt"
	"strings"
	"sync"

	"holdfast/jepsen/internal/cluster"
	"holdfast/jepsen/internal/history"
	"holdfast/jepsen/internal/judge"
)

// move: mounts are moved to and fro between two paths, while clients read both paths on every node.
var move = &Workload{
	Name:  "move",
	Does:  "remount to and fro while both paths are read",
	Judge: judge.Move,
	Least: 20,
	Setup: func(e *Env) error { e.Shared = &moved{}; return nil },
	Run: func(c *Client) {
		if c.ID < movers {
			for !c.Stopped() {
				moveToAndFro(c, c.Shared.(*moved))
			}
			return
		}
		for !c.Stopped() {
			if name := c.Shared.(*moved).pick(c); name != "" {
				if c.Rand.Intn(40) == 0 {
					moveTo(c, name, 1+c.Rand.Int63n(2))
				} else {
					readPlace(c, name, 1+c.Rand.Int63n(2), nil)
				}
			}
			sleep(15) // quiet times would outweigh faults
		}
	},
	Final: func(c *Client, n *cluster.Node) error {
		for _, name := range c.Shared.(*moved).every() {
			for place := range int64(2) {
				o := &history.Op{F: "read", Key: name, Arg: place + 1}
				r, err := c.Settled(o, n, cluster.Request{Method: "GET", Path: "/v1/" + placeOf(name, o.Arg) + "/x"})
				if err != nil {
					return err
				}
				placeDone(c, o, r)
			}
		}
		return nil
	},
}

const (
	movers    = 2
	movesEach = 15 // of one mount, before the next takes its place
)

// moved are the mounts: the one that each mover moves now, and those before.
type moved struct {
	mu   sync.Mutex
	now  [movers]string
	past []string
}

func (m *moved) put(at int, name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.now[at] != "" {
		m.past = append(m.past, m.now[at])
	}
	m.now[at] = name
}

func (m *moved) pick(c *Client) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now[c.Rand.Intn(movers)]
}

func (m *moved) every() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := append([]string(nil), m.past...)
	for _, name := range m.now {
		if name != "" {
			all = append(all, name)
		}
	}
	return all
}

// placeOf a mount: the path that a number stands for, 1 or 2.
func placeOf(name string, place int64) string {
	return []string{"left-", "right-"}[place-1] + name
}

// moveToAndFro makes a mount at its first place, with one secret, and moves it for a while.
func moveToAndFro(c *Client, all *moved) {
	o := &history.Op{F: "make", Process: c.ID, Type: history.OK, Arg: 1, Version: c.Unique(), Invoke: c.Record.Now()}
	o.Key = fmt.Sprintf("m%d", o.Version)
	made := c.Root(cluster.Request{Method: "POST", Path: "/v1/sys/mounts/" + placeOf(o.Key, 1), Body: map[string]any{"type": "kv"}})
	if made == nil || made.Status != 204 {
		return // by chance: an earlier try without an answer has made it
	}
	filled := c.Root(cluster.Request{Method: "PUT", Path: "/v1/" + placeOf(o.Key, 1) + "/x", Body: c.secret(o.Version)})
	if filled == nil || filled.Status != 204 {
		return
	}
	o.Return = c.Record.Now()
	c.Done(o)
	all.put(c.ID, o.Key)
	for i := range int64(movesEach) {
		pause(c)
		if c.Stopped() {
			return
		}
		moveTo(c, o.Key, 2-i%2)
	}
}

// moveTo moves the mount to a place; it is refused where the mount is there already.
func moveTo(c *Client, name string, place int64) {
	o := &history.Op{F: "move", Key: name, Arg: place}
	r := c.Do(o, nil, cluster.Request{Method: "POST", Path: "/v1/sys/remount",
		Body: map[string]any{"from": placeOf(name, 3-place), "to": placeOf(name, place)}})
	switch {
	case r.Known() && r.Status == 200:
		o.Value = 1
	case r.Known() && r.Status == 400 && (strings.Contains(string(r.Body), "no matching mount") ||
		strings.Contains(string(r.Body), "already in use")):
	case r.Known():
		c.Wrong(o, r)
		return
	}
	c.Done(o)
}

func readPlace(c *Client, name string, place int64, n *cluster.Node) {
	o := &history.Op{F: "read", Key: name, Arg: place}
	r := c.Do(o, n, cluster.Request{Method: "GET", Path: "/v1/" + placeOf(name, place) + "/x"})
	placeDone(c, o, r)
}

func placeDone(c *Client, o *history.Op, r cluster.Reply) {
	var body struct{ Data struct{ V int64 } }
	switch {
	case r.Known() && r.Status == 200 && r.JSON(&body) == nil:
		o.Value, o.Version = 1, body.Data.V
	case r.Known() && r.Status == 404:
	case r.Known():
		c.Wrong(o, r)
		return
	}
	c.Done(o)
}
