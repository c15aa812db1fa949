package workload

import (
	"strings"

	"holdfast/jepsen/internal/cluster"
	"holdfast/jepsen/internal/history"
	"holdfast/jepsen/internal/judge"
)

// appendLists: four lists at a time, each a secret of version 2 that clients extend by check-and-set.
var appendLists = &Workload{
	Name:  "append",
	Does:  "lists under cas over 4 keys, long histories",
	Judge: judge.Append,
	Least: 20,
	Hasty: true,
	Setup: func(e *Env) error {
		e.Shared = newKeys("list", 4, 600)
		return mountVersions(e, "lists")
	},
	Run: func(c *Client) {
		k := c.Shared.(*keys)
		for !c.Stopped() {
			key := k.pick(c.Rand.Intn(4), 1)
			list, version, known := readList(c, key, nil)
			if known && c.Rand.Intn(3) > 0 {
				appendTo(c, &history.Op{Key: key}, nil, list, version)
			}
		}
	},
	Final: func(c *Client, n *cluster.Node) error {
		for _, key := range c.Shared.(*keys).every() {
			o := &history.Op{F: "read", Key: key}
			r, err := c.Settled(o, n, listRead(key))
			if err != nil {
				return err
			}
			listDone(c, o, r)
		}
		return nil
	},
}

type listReply struct {
	Data struct {
		Data     struct{ L []int64 }
		Metadata struct{ Version int64 }
	}
}

func listRead(key string) cluster.Request {
	return cluster.Request{Method: "GET", Path: "/v1/lists/data/" + key}
}

func listDone(c *Client, o *history.Op, r cluster.Reply) (version int64, known bool) {
	var body listReply
	if refusedBySecondary(o, r) {
		c.Done(o)
		return 0, false
	}
	if r.Known() && r.Status != 404 && (r.Status != 200 || r.JSON(&body) != nil) {
		c.Wrong(o, r)
		return 0, false
	}
	o.Values = body.Data.Data.L
	c.Done(o)
	return body.Data.Metadata.Version, r.Known()
}

func readList(c *Client, key string, n *cluster.Node) (list []int64, version int64, known bool) {
	o := &history.Op{F: "read", Key: key}
	r := c.Do(o, n, listRead(key))
	version, known = listDone(c, o, r)
	return o.Values, version, known
}

// appendTo a list by check-and-set of its version. `o` names the list.
func appendTo(c *Client, o *history.Op, n *cluster.Node, list []int64, version int64) {
	o.F, o.Arg = "append", c.Unique()
	longer := append(append([]int64(nil), list...), o.Arg)
	r := c.Do(o, n, cluster.Request{Method: "PUT", Path: "/v1/lists/data/" + o.Key,
		Body: map[string]any{"data": map[string]any{"l": longer, "s": c.Marker}, "options": map[string]any{"cas": version}}})
	switch {
	case refusedBySecondary(o, r):
	case r.Known() && r.Status == 400 && strings.Contains(string(r.Body), "did not match"):
		o.Type = history.Fail
	case r.Known() && r.Status != 200:
		c.Wrong(o, r)
		return
	case r.Header.Get("X-Replication-Confirmed") == "true":
		o.Value = judge.Confirmed
	}
	c.Done(o)
}

// refusedBySecondary: a secondary of a pair does nothing for clients.
func refusedBySecondary(o *history.Op, r cluster.Reply) bool {
	refused := r.Status == 400 && strings.Contains(string(r.Body), "path disabled in replication DR secondary mode")
	if refused {
		o.Type = history.Fail
		sleep(20)
	}
	return refused
}
