package workload

import (
	"fmt"

	"holdfast/jepsen/internal/cluster"
	"holdfast/jepsen/internal/history"
	"holdfast/jepsen/internal/judge"
)

// set: names are added to folders, which are listed.
var set = &Workload{
	Name:  "set",
	Does:  "create unique names, LIST",
	Judge: judge.Set,
	Least: 20,
	Setup: func(e *Env) error {
		e.Shared = newKeys("folder", 2, 400)
		return mount(e, "set", "1")
	},
	Run: func(c *Client) {
		k := c.Shared.(*keys)
		for !c.Stopped() {
			folder := k.pick(c.Rand.Intn(2), 1)
			if c.Rand.Intn(3) == 0 {
				o := &history.Op{F: "list", Key: folder}
				r := c.Do(o, nil, listFolder(folder))
				folderDone(c, o, r)
				continue
			}
			o := &history.Op{F: "add", Key: folder, Arg: c.Unique()}
			o.Text = fmt.Sprintf("n%d", o.Arg)
			r := c.Do(o, nil, cluster.Request{Method: "PUT", Path: "/v1/set/" + folder + "/" + o.Text, Body: c.secret(o.Arg)})
			if r.Known() && r.Status != 204 {
				c.Wrong(o, r)
				continue
			}
			c.Done(o)
		}
	},
	Final: func(c *Client, n *cluster.Node) error {
		for _, folder := range c.Shared.(*keys).every() {
			o := &history.Op{F: "list", Key: folder}
			r, err := c.Settled(o, n, listFolder(folder))
			if err != nil {
				return err
			}
			folderDone(c, o, r)
		}
		return nil
	},
}

func listFolder(folder string) cluster.Request {
	return cluster.Request{Method: "LIST", Path: "/v1/set/" + folder}
}

func folderDone(c *Client, o *history.Op, r cluster.Reply) {
	var body struct{ Data struct{ Keys []string } }
	if r.Known() && r.Status != 404 && (r.Status != 200 || r.JSON(&body) != nil) {
		c.Wrong(o, r)
		return
	}
	o.Names = body.Data.Keys
	c.Done(o)
}
