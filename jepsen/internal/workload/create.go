package workload

import (
	"fmt"
	"strings"
	"sync"

	"holdfast/jepsen/internal/cluster"
	"holdfast/jepsen/internal/history"
	"holdfast/jepsen/internal/judge"
)

// create: one name by five clients at once.
var create = &Workload{
	Name:  "create",
	Does:  "one name by five at once: a mount, a secret by cas=0",
	Judge: judge.Create,
	Least: 10,
	Setup: func(e *Env) error {
		e.Shared = &names{}
		return mount(e, "made", "2")
	},
	Run: func(c *Client) {
		if c.ID >= groups {
			return // each of the others has five clients
		}
		users := make([]*Client, creators)
		for i := range users {
			users[i] = NewClient(c.Env, 100*(c.ID+1)+i, c.Rand.Int63())
			defer users[i].Close()
		}
		for round := 0; !c.Stopped(); round++ {
			t := things[round%len(things)]
			name := fmt.Sprintf("%s%d-%d", t.name, c.ID, round)
			c.Shared.(*names).add(name, t)
			var all sync.WaitGroup
			for _, user := range users {
				all.Add(1)
				go func() {
					defer all.Done()
					createAndLook(user, t, name)
				}()
			}
			all.Wait()
			sleep(50 + c.Rand.Intn(100)) // quiet times would outweigh faults: a round takes long then
		}
	},
	Final: func(c *Client, n *cluster.Node) error {
		for _, made := range c.Shared.(*names).every() {
			o := &history.Op{F: "look", Key: made.name}
			r, err := c.Settled(o, n, cluster.Request{Method: "GET", Path: made.thing.path(made.name)})
			if err != nil {
				return err
			}
			lookDone(c, made.thing, o, r)
		}
		return nil
	},
}

const (
	groups   = 4
	creators = 5
)

type made struct {
	name  string
	thing *thing
}

type names struct {
	mu  sync.Mutex
	all []made
}

func (n *names) add(name string, t *thing) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, made{name, t})
}

func (n *names) every() []made {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]made(nil), n.all...)
}

// thing is something that has a name which only one can take.
type thing struct {
	name   string
	path   func(name string) string
	method string
	body   func(c *Client, mark int64) any
	taken  string // what the refusal says
	id     func(cluster.Reply) (id string, mark int64)
}

func describedMount(kind string) func(*Client, int64) any {
	return func(_ *Client, mark int64) any {
		return map[string]any{"type": kind, "description": fmt.Sprint(mark)}
	}
}

func mountID(r cluster.Reply) (id string, mark int64) {
	var body struct {
		Data struct{ Accessor, UUID, Description string }
	}
	if r.JSON(&body) != nil {
		return "", 0
	}
	_, _ = fmt.Sscan(body.Data.Description, &mark) // 0: not one of ours
	return body.Data.Accessor + " " + body.Data.UUID, mark
}

var things = []*thing{
	{name: "mount", method: "POST", path: func(name string) string { return "/v1/sys/mounts/" + name },
		body: describedMount("kv"), taken: "in use", id: mountID},
	{name: "secret", method: "POST", path: func(name string) string { return "/v1/made/data/" + name },
		body: func(c *Client, mark int64) any {
			return map[string]any{"data": c.secret(mark), "options": map[string]any{"cas": 0}}
		}, taken: "did not match",
		id: func(r cluster.Reply) (string, int64) {
			var body versionedReply
			if r.JSON(&body) != nil {
				return "", 0
			}
			return fmt.Sprintf("version %d", body.Data.Metadata.Version), body.Data.Data.V
		}},
}

func createAndLook(c *Client, t *thing, name string) {
	o := &history.Op{F: "create", Key: name, Arg: c.Unique()}
	r := c.Do(o, nil, cluster.Request{Method: t.method, Path: t.path(name), Body: t.body(c, o.Arg)})
	switch {
	case r.NeverSent():
		o.F = "unsent"
	case r.Known() && r.Status == 400 && strings.Contains(string(r.Body), t.taken):
		o.Type = history.Fail
	case r.Known() && r.Status != 204 && r.Status != 200:
		c.Wrong(o, r)
		return
	}
	c.Done(o)
	look := &history.Op{F: "look", Key: name}
	r = c.Do(look, nil, cluster.Request{Method: "GET", Path: t.path(name)})
	lookDone(c, t, look, r)
}

func lookDone(c *Client, t *thing, o *history.Op, r cluster.Reply) {
	switch {
	case r.Known() && r.Status == 200:
		o.Text, o.Arg = t.id(r)
		if o.Text == "" {
			c.Wrong(o, r)
			return
		}
	case r.Known() && (r.Status == 404 || (r.Status == 400 && strings.Contains(string(r.Body), "mount"))):
	case r.Known():
		c.Wrong(o, r)
		return
	}
	c.Done(o)
}
