package workload

import (
	"fmt"
	"slices"
	"sync"
)

// keys are some names that clients use at the same time. A name is replaced by a new one when it was
// used often enough: histories of one key stay short, so that they can be judged.
type keys struct {
	mu     sync.Mutex
	prefix string
	most   int // uses of a name
	now    []string
	uses   []int
	all    []string
}

func newKeys(prefix string, count, most int) *keys {
	k := &keys{prefix: prefix, most: most, now: make([]string, count), uses: make([]int, count)}
	for i := range k.now {
		k.replace(i)
	}
	return k
}

func (k *keys) replace(i int) {
	k.now[i] = fmt.Sprintf("%s%d", k.prefix, len(k.all))
	k.uses[i] = 0
	k.all = append(k.all, k.now[i])
}

// pick a name; cost is how much of its life the use takes.
func (k *keys) pick(i, cost int) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	i %= len(k.now)
	name := k.now[i]
	k.uses[i] += cost
	if k.uses[i] >= k.most {
		k.replace(i)
	}
	return name
}

// age a name by a use whose outcome is unknown: those make the judgement dear.
func (k *keys) age(name string, cost int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.now {
		if k.now[i] == name {
			if k.uses[i] += cost; k.uses[i] >= k.most {
				k.replace(i)
			}
		}
	}
}

// inUse says whether the name was not replaced yet.
func (k *keys) inUse(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Contains(k.now, name)
}

// every name that was ever used.
func (k *keys) every() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]string(nil), k.all...)
}
