package cluster

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Request is one HTTP request.
type Request struct {
	Method, Path string
	Body         any    // sent as JSON, if any; bytes as they are
	Token        string // root's, if none is given
	Bare         bool   // no token at all
	Header       map[string]string
	Timeout      time.Duration
}

// Reply to a request. Status is 0 where no answer came.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
	Sent   bool // the server may have got the request
	Err    error
}

// Unknown says whether the request may have taken effect although it was not acknowledged: the answer
// was lost, or the server says that something went wrong.
func (r *Reply) Unknown() bool {
	return r.Sent && (r.Status == 0 || r.Status >= 500) && !r.Unchanged()
}

// Unchanged says that the server promises that the request changed nothing.
func (r *Reply) Unchanged() bool {
	return r.Status >= 500 && bytes.Contains(r.Body, []byte("nothing was changed"))
}

// NeverSent says that no server can have done what the request asks for.
func (r *Reply) NeverSent() bool { return !r.Sent || r.Unchanged() }

// Known says whether the answer tells what happened.
func (r *Reply) Known() bool { return r.Sent && r.Status != 0 && r.Status < 500 }

func (r *Reply) JSON(into any) error { return json.Unmarshal(r.Body, into) }

// What is the reply in a few words.
func (r *Reply) What() string {
	if r.Err != nil {
		return r.Err.Error()
	}
	return fmt.Sprintf("%d %.200s", r.Status, r.Body)
}

// Client keeps one connection to each node, for one goroutine. It never sends a request twice: the
// client of the standard library does that with a GET on a connection that was closed.
type Client struct {
	cluster *Cluster
	links   map[string]*link
}

type link struct {
	conn   net.Conn
	reader *bufio.Reader
}

const requestTimeout = 10 * time.Second // of requests that name none

func (c *Cluster) Client() *Client { return &Client{cluster: c, links: map[string]*link{}} }

// Close all connections.
func (c *Client) Close() {
	for _, l := range c.links {
		l.conn.Close()
	}
	c.links = map[string]*link{}
}

// Do makes the request at a node.
func (c *Client) Do(n *Node, q Request) Reply { return c.DoAt(n.Endpoint(), q) }

// DoAt makes the request at an address.
func (c *Client) DoAt(address string, q Request) Reply {
	if q.Timeout == 0 {
		q.Timeout = requestTimeout
	}
	deadline := time.Now().Add(q.Timeout)
	l := c.links[address]
	if l == nil {
		raw, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return Reply{Err: err}
		}
		secure := tls.Client(raw, c.cluster.tls)
		_ = raw.SetDeadline(deadline)
		if err := secure.Handshake(); err != nil {
			raw.Close()
			return Reply{Err: err}
		}
		l = &link{conn: secure, reader: bufio.NewReader(secure)}
		c.links[address] = l
	}
	reply, keep := l.exchange(address, c.cluster.Token, q, deadline)
	if !keep {
		l.conn.Close()
		delete(c.links, address)
	}
	return reply
}

func (l *link) exchange(address, token string, q Request, deadline time.Time) (Reply, bool) {
	_ = l.conn.SetDeadline(deadline)
	var body []byte
	if raw, is := q.Body.([]byte); is {
		body = raw
	} else if q.Body != nil {
		var err error
		if body, err = json.Marshal(q.Body); err != nil {
			return Reply{Err: err}, true
		}
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, "%s %s HTTP/1.1\r\nHost: %s\r\n", q.Method, q.Path, address)
	if q.Token != "" {
		token = q.Token
	}
	if !q.Bare && token != "" {
		fmt.Fprintf(&text, "X-Secrets-Token: %s\r\n", token)
	}
	for name, value := range q.Header {
		fmt.Fprintf(&text, "%s: %s\r\n", name, value)
	}
	fmt.Fprintf(&text, "Content-Length: %d\r\n\r\n", len(body))
	text.Write(body)
	if _, err := l.conn.Write(text.Bytes()); err != nil {
		return Reply{Err: err, Sent: true}, false
	}
	for {
		answer, err := http.ReadResponse(l.reader, &http.Request{Method: q.Method})
		if err != nil {
			return Reply{Err: err, Sent: true}, false
		}
		got, err := io.ReadAll(answer.Body)
		if err != nil {
			return Reply{Err: err, Sent: true}, false
		}
		if answer.StatusCode/100 == 1 {
			continue
		}
		return Reply{Status: answer.StatusCode, Header: answer.Header, Body: got, Sent: true}, !answer.Close
	}
}
