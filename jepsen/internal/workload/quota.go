package workload

import (
	"holdfast/jepsen/internal/cluster"
	"holdfast/jepsen/internal/history"
	"holdfast/jepsen/internal/judge"
)

// quota: clients ask in bursts for a path with a limited rate, through every node.
var quota = &Workload{
	Name:    "quota",
	Does:    "a limited rate through every node, in bursts",
	Judge:   judge.Quota,
	Least:   20,
	Rewinds: true,
	Setup: func(e *Env) error {
		if err := mount(e, "limited", "1"); err != nil {
			return err
		}
		if _, err := setup(e, cluster.Request{Method: "PUT", Path: "/v1/limited/x", Body: e.secret(e.Unique())}); err != nil {
			return err
		}
		_, err := setup(e, cluster.Request{Method: "POST", Path: "/v1/sys/quotas/rate-limit/limited",
			Body: map[string]any{"path": "limited/", "rate": judge.QuotaRate, "interval": "1s"}})
		sleep(settingsOld)
		return err
	},
	Run: func(c *Client) {
		for !c.Stopped() {
			for range 5 + c.Rand.Intn(20) {
				if c.Stopped() {
					return
				}
				askLimited(c)
			}
			sleep(100 + c.Rand.Intn(400))
		}
	},
	Final: func(*Client, *cluster.Node) error { return nil },
}

// settingsOld is how old the settings may be by which a node limits, in milliseconds, and some more.
const settingsOld = 300

func askLimited(c *Client) {
	o := &history.Op{F: "ask", Key: "limited"}
	q := cluster.Request{Method: "GET", Path: "/v1/limited/x"}
	if c.Rand.Intn(3) == 0 {
		q = cluster.Request{Method: "PUT", Path: "/v1/limited/y", Body: c.secret(c.Unique())}
	}
	r := c.Do(o, nil, q)
	switch {
	case r.Known() && (r.Status == 200 || r.Status == 204):
		o.Value = 1
	case r.Known() && r.Status != 429:
		c.Wrong(o, r)
		return
	}
	c.Done(o)
}
