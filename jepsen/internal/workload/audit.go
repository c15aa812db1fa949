package workload

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"holdfast/jepsen/internal/cluster"
	"holdfast/jepsen/internal/history"
	"holdfast/jepsen/internal/judge"
)

// audit: each request has a path of its own, by which the trails of all nodes name it.
var audit = &Workload{
	Name:    "audit",
	Does:    "reads and writes of unique paths; the trails of all nodes",
	Newer:   true,
	Judge:   judge.Audit,
	Least:   20,
	Rewinds: true,
	Setup:   func(e *Env) error { return mount(e, auditedPath, "1") },
	Run: func(c *Client) {
		for !c.Stopped() {
			o := &history.Op{F: "write", Arg: c.Unique()}
			q := cluster.Request{Method: "PUT", Body: c.secret(o.Arg)}
			if c.Rand.Intn(2) == 0 {
				o.F, q = "read", cluster.Request{Method: "GET"}
			}
			o.Key = fmt.Sprintf("%s%d", o.F, o.Arg)
			q.Path = "/v1/" + auditedPath + "/" + o.Key
			r := c.Do(o, nil, q)
			known := map[string]int{"write": 204, "read": 404}[o.F]
			if r.Known() && r.Status != known {
				c.Wrong(o, r)
				continue
			}
			c.Done(o)
		}
	},
	Final: func(c *Client, n *cluster.Node) error {
		o := &history.Op{F: "list"}
		r, err := c.Settled(o, n, cluster.Request{Method: "LIST", Path: "/v1/" + auditedPath})
		if err != nil {
			return err
		}
		folderDone(c, o, r)
		if n != c.Cluster.Nodes[0] {
			return trailOf(c, n)
		}
		for _, each := range append([]*cluster.Node{n}, c.Cluster.Spares...) { // a spare one may have led
			if err := trailOf(c, each); err != nil {
				return err
			}
		}
		return nil
	},
}

const auditedPath = "audited"

// trailOf puts what a node's trail has of each request into the history.
func trailOf(c *Client, n *cluster.Node) error {
	text, err := os.ReadFile(n.TrailFile())
	if err != nil && !(os.IsNotExist(err) && slices.Contains(c.Cluster.Spares, n)) { // it may never have run
		return err
	}
	of := map[string]*history.Op{}
	for _, line := range strings.Split(string(text), "\n") {
		var record struct {
			Type    string
			Request struct{ ID, Path string }
		}
		if json.Unmarshal([]byte(line), &record) != nil {
			continue // the node was killed while it wrote the line
		}
		key, audited := strings.CutPrefix(record.Request.Path, auditedPath+"/")
		if !audited || key == "" {
			continue
		}
		if of[key] == nil {
			of[key] = &history.Op{F: "trail", Key: key, Node: n.Name, Process: c.ID, Type: history.OK, Final: true,
				Invoke: c.Record.Now(), Return: c.Record.Now()}
			defer c.Done(of[key])
		}
		of[key].Names = append(of[key].Names, record.Type+" "+record.Request.ID)
	}
	return nil
}
