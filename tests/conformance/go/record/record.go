// Package record keeps the requests of a client, for the contract test.
package record

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
)

// Transport passes requests on and keeps each with its answer, as a line of $HOLDFAST_CALLS.
type Transport struct{ Next http.RoundTripper }

type call struct {
	Port    int               `json:"port"`
	Method  string            `json:"method"`
	Target  string            `json:"target"`
	Headers map[string]string `json:"headers"`
	Body    []byte            `json:"body"`
	Status  int               `json:"status"`
	Told    map[string]string `json:"told"`
	Answer  []byte            `json:"answer"`
	Open    bool              `json:"open"` // the answer goes on until the client closes it
}

var calls sync.Mutex

func (r Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	sent := request.Clone(request.Context())
	body, err := drain(&sent.Body)
	if err != nil {
		return nil, err
	}
	answer, err := r.Next.RoundTrip(sent)
	if err != nil {
		return nil, err
	}
	var told []byte
	open := request.URL.Path == "/v1/sys/monitor" && answer.StatusCode == http.StatusOK
	if !open {
		if told, err = drain(&answer.Body); err != nil {
			return nil, err
		}
	}
	port, err := strconv.Atoi(request.URL.Port())
	if err != nil {
		return nil, err
	}
	err = keep(call{port, request.Method, request.URL.RequestURI(), first(request.Header), body,
		answer.StatusCode, first(answer.Header), told, open})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// drain reads all of a body and puts a copy in its place.
func drain(body *io.ReadCloser) ([]byte, error) {
	if *body == nil || *body == http.NoBody {
		return nil, nil
	}
	all, err := io.ReadAll(*body)
	(*body).Close()
	*body = io.NopCloser(bytes.NewReader(all))
	return all, err
}

func first(headers http.Header) map[string]string {
	values := map[string]string{}
	for name := range headers {
		values[name] = headers.Get(name)
	}
	return values
}

func keep(c call) error {
	line, err := json.Marshal(c)
	if err != nil {
		return err
	}
	calls.Lock()
	defer calls.Unlock()
	file, err := os.OpenFile(os.Getenv("HOLDFAST_CALLS"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}
