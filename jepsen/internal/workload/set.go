package workload

import (
	"fmt"

	"holdfast/jepsen/internal/cluster"
	"holdfast/jepsen/internal/history"
	"holdfast/jepsen/internal/judge"
)

// set: names are added to folders, which are listed, at once and in pages.
var set = &Workload{
	Name:  "set",
	Does:  "create unique names, LIST, SCAN, LIST in pages",
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
			switch dice := c.Rand.Intn(60); {
			case dice == 0:
				walkFolder(c, folder)
				continue
			case dice < 20:
				o := &history.Op{F: "list", Key: folder}
				q := listFolder(folder)
				if dice < 7 {
					q.Method = "SCAN"
				}
				r := c.Do(o, nil, q)
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

const pageNames = 7

// walkFolder lists a folder in pages, each from a node by chance. A page without an answer ends the
// walk, which then says nothing.
func walkFolder(c *Client, folder string) {
	walk := &history.Op{F: "walk", Key: folder, Process: c.ID, Type: history.OK, Invoke: c.Record.Now()}
	for {
		o := &history.Op{F: "page", Key: folder}
		q := listFolder(folder)
		q.Path += fmt.Sprintf("?limit=%d", pageNames)
		if n := len(walk.Names); n > 0 {
			q.Path += "&after=" + walk.Names[n-1]
		}
		r := c.Do(o, nil, q)
		var body struct{ Data struct{ Keys []string } }
		switch {
		case r.Known() && r.Status != 404 && (r.Status != 200 || r.JSON(&body) != nil):
			c.Wrong(o, r)
			return
		case !r.Known():
			return
		}
		walk.Names = append(walk.Names, body.Data.Keys...)
		if len(body.Data.Keys) < pageNames {
			break
		}
	}
	walk.Return = c.Record.Now()
	c.Done(walk)
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
