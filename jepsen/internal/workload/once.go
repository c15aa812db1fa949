package workload

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"sync"

	"holdfast/jepsen/internal/cluster"
	"holdfast/jepsen/internal/history"
	"holdfast/jepsen/internal/judge"
)

// once: what is good for one use is used on three nodes at the same time.
var once = &Workload{
	Name:  "once",
	Does:  "unwrap and rewrap of a wrapping token, the last use of a token, use of a join token, on three nodes at once",
	Judge: judge.Once,
	Least: 10,
	Setup: func(e *Env) error {
		if err := mount(e, "once", "1"); err != nil {
			return err
		}
		if _, err := setup(e, cluster.Request{Method: "PUT", Path: "/v1/once/x", Body: e.secret(e.Unique())}); err != nil {
			return err
		}
		return mayCertify(e)
	},
	Run: func(c *Client) {
		users := make([]*Client, usersAtOnce)
		for i := range users {
			users[i] = NewClient(c.Env, c.ID*100+i+100, c.Rand.Int63())
			defer users[i].Close()
		}
		for round := 0; !c.Stopped(); round++ {
			key, uses := makeOnce(c, round)
			if uses == nil {
				continue
			}
			var all sync.WaitGroup
			for i, user := range users {
				all.Add(1)
				go func() {
					defer all.Done()
					node := c.Cluster.Nodes[(round+i)%len(c.Cluster.Nodes)]
					use(user, key, node, uses[i%len(uses)])
				}()
			}
			all.Wait()
			sleep(50 + c.Rand.Intn(150)) // quiet times would outweigh faults: a round takes long then
		}
	},
	Final: func(*Client, *cluster.Node) error { return nil },
}

const usersAtOnce = 3

// mayCertify lets the cluster make certificates for nodes that show a join token.
func mayCertify(e *Env) error {
	certificate, key, err := e.Cluster.Authority()
	if err != nil {
		return err
	}
	if _, err := setup(e, cluster.Request{Method: "POST", Path: "/v1/sys/storage/raft/certificates/authority",
		Body: map[string]any{"certificate": certificate, "private_key": key}}); err != nil {
		return err
	}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&own.PublicKey)
	e.Shared = string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))
	return err
}

// makeJoin makes a join token, which three nodes of different names use.
func makeJoin(c *Client, round int) (key string, uses []cluster.Request) {
	r := c.Root(cluster.Request{Method: "POST", Path: "/v1/sys/storage/raft/join-token"})
	var made struct {
		Data struct {
			Token string
		}
	}
	if r == nil || r.Status != 200 || r.JSON(&made) != nil {
		return "", nil
	}
	for i := range usersAtOnce {
		uses = append(uses, cluster.Request{Method: "POST", Path: "/v1/sys/storage/raft/bootstrap/join", Bare: true,
			Body: map[string]any{"join_token": made.Data.Token, "node_id": fmt.Sprintf("n%d-%d-%d", c.ID, round, i),
				"public_key": c.Shared}})
	}
	return fmt.Sprintf("join-%d-%d", c.ID, round), uses
}

// makeOnce makes a thing; returns the requests that use it.
func makeOnce(c *Client, round int) (key string, uses []cluster.Request) {
	kind := c.Rand.Intn(5)
	if kind == 0 {
		return makeJoin(c, round)
	}
	if kind < 3 {
		r := c.Root(cluster.Request{Method: "POST", Path: "/v1/auth/token/create",
			Body: map[string]any{"num_uses": 1, "ttl": "1h", "policies": []string{"root"}}})
		var made struct {
			Auth struct {
				ClientToken string `json:"client_token"`
			}
		}
		if r == nil || r.Status != 200 || r.JSON(&made) != nil {
			return "", nil
		}
		return fmt.Sprintf("last-use-%d-%d", c.ID, round), []cluster.Request{
			{Method: "GET", Path: "/v1/once/x", Token: made.Auth.ClientToken},
			{Method: "PUT", Path: "/v1/once/y", Body: c.secret(c.Unique()), Token: made.Auth.ClientToken}}
	}
	r := c.Root(cluster.Request{Method: "GET", Path: "/v1/once/x", Header: map[string]string{"X-Secrets-Wrap-TTL": "1h"}})
	var made struct {
		WrapInfo struct{ Token string } `json:"wrap_info"`
	}
	if r == nil || r.Status != 200 || r.JSON(&made) != nil {
		return "", nil
	}
	body := map[string]any{"token": made.WrapInfo.Token} // beside root's token, which may do that
	return fmt.Sprintf("unwrap-%d-%d", c.ID, round), []cluster.Request{
		{Method: "POST", Path: "/v1/sys/wrapping/unwrap", Token: made.WrapInfo.Token},
		{Method: "POST", Path: "/v1/sys/wrapping/unwrap", Body: body},
		{Method: "POST", Path: "/v1/sys/wrapping/rewrap", Body: body}}
}

func use(c *Client, key string, n *cluster.Node, q cluster.Request) {
	o := &history.Op{F: "use", Key: key, Text: q.Path}
	r := c.Do(o, n, q)
	switch {
	case r.Known() && (r.Status == 400 || r.Status == 403 || r.Status == 404):
		o.Type, o.Error = history.Fail, r.What()
	case r.NeverSent():
		o.F = "unsent" // neither used nor refused
	case r.Known() && r.Status != 200 && r.Status != 204:
		c.Wrong(o, r)
		return
	}
	c.Done(o)
}
