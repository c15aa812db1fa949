// Load on etcd by gRPC, with upstream's client: a closed loop on each of so many connections.
//
//	etcd_load put|get ENDPOINT CONNECTIONS SECONDS KEYS
//
// Prints one JSON object: requests a second, p50 and p99 in ms.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "etcd_load:", err)
		os.Exit(1)
	}
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	check(err)
	return n
}

// The latencies of one connection until the end.
func load(client *clientv3.Client, put bool, first, step, keys int, end time.Time) []time.Duration {
	value := strings.Repeat("0123456789abcdef", 4)
	var took []time.Duration
	for i := first; time.Now().Before(end); i += step {
		key := fmt.Sprintf("bench/%06d", i%keys)
		start := time.Now()
		var err error
		if put {
			_, err = client.Put(context.Background(), key, value)
		} else {
			_, err = client.Get(context.Background(), key)
		}
		check(err)
		took = append(took, time.Since(start))
	}
	return took
}

func main() {
	if len(os.Args) != 6 {
		fmt.Fprintln(os.Stderr, "usage: etcd_load put|get ENDPOINT CONNECTIONS SECONDS KEYS")
		os.Exit(2)
	}
	put, connections, keys := os.Args[1] == "put", number(os.Args[3]), number(os.Args[5])
	clients := make([]*clientv3.Client, connections)
	for i := range clients {
		var err error
		clients[i], err = clientv3.New(clientv3.Config{
			Endpoints: []string{os.Args[2]}, DialTimeout: 10 * time.Second})
		check(err)
		_, err = clients[i].Get(context.Background(), "bench") // connected before the clock starts
		check(err)
	}
	start := time.Now()
	end := start.Add(time.Duration(number(os.Args[4])) * time.Second)
	var all []time.Duration
	var lock sync.Mutex
	var group sync.WaitGroup
	for i, client := range clients {
		group.Add(1)
		go func() {
			defer group.Done()
			took := load(client, put, i, connections, keys, end)
			lock.Lock()
			defer lock.Unlock()
			all = append(all, took...)
		}()
	}
	group.Wait()
	seconds := time.Since(start).Seconds()
	sort.Slice(all, func(a, b int) bool { return all[a] < all[b] })
	at := func(share float64) float64 {
		return float64(all[int(share*float64(len(all)-1))].Microseconds()) / 1000
	}
	check(json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"rate": float64(len(all)) / seconds, "p50_ms": at(0.5), "p99_ms": at(0.99)}))
}
