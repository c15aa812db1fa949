package registry

import (
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
)

type woken[T any] struct {
	value T
	meta  *api.QueryMeta
	err   error
}

// park starts a request that waits, and gives it time to reach the server.
func park[T any](run func() (T, *api.QueryMeta, error)) <-chan woken[T] {
	done := make(chan woken[T], 1)
	go func() {
		value, meta, err := run()
		done <- woken[T]{value, meta, err}
	}()
	time.Sleep(300 * time.Millisecond)
	return done
}

func await[T any](t *testing.T, done <-chan woken[T]) (T, *api.QueryMeta) {
	t.Helper()
	select {
	case w := <-done:
		must(t, w.err)
		return w.value, w.meta
	case <-time.After(60 * time.Second):
		t.Fatal("not woken")
		panic("unreachable")
	}
}

func still[T any](t *testing.T, done <-chan woken[T]) {
	t.Helper()
	select {
	case w := <-done:
		t.Fatalf("woken without a change: %+v", w)
	case <-time.After(300 * time.Millisecond):
	}
}

func after(meta *api.QueryMeta) *api.QueryOptions {
	return &api.QueryOptions{WaitIndex: meta.LastIndex, WaitTime: 2 * time.Minute}
}

func TestAReaderOfAPolicyIsWokenByItsChangeAlone(t *testing.T) {
	each(t, func(t *testing.T, name string, writer, reader *api.ACL) {
		made, _ := both(writer.PolicyCreate(&api.ACLPolicy{Name: name}, nil))(t)
		_, meta := both(reader.PolicyRead(made.ID, nil))(t)
		done := park(func() (*api.ACLPolicy, *api.QueryMeta, error) {
			return reader.PolicyRead(made.ID, after(meta))
		})
		other, _ := both(writer.PolicyCreate(&api.ACLPolicy{Name: name + "-other"}, nil))(t)
		still(t, done)
		both(writer.PolicyUpdate(&api.ACLPolicy{ID: made.ID, Name: name, Description: "new"}, nil))(t)
		have, told := await(t, done)
		equal(t, have.Description, "new")
		if told.LastIndex <= meta.LastIndex {
			t.Fatalf("the index was %d, is %d", meta.LastIndex, told.LastIndex)
		}
		for _, id := range []string{made.ID, other.ID} {
			got(writer.PolicyDelete(id, nil))(t)
		}
	})
}

func TestAReaderOfAListIsWokenByAddedAndRemovedPolicies(t *testing.T) {
	each(t, func(t *testing.T, name string, writer, reader *api.ACL) {
		list, meta := both(reader.PolicyList(nil))(t)
		wait := func() <-chan woken[[]*api.ACLPolicyListEntry] {
			return park(func() ([]*api.ACLPolicyListEntry, *api.QueryMeta, error) {
				return reader.PolicyList(after(meta))
			})
		}
		done := wait()
		made, _ := both(writer.PolicyCreate(&api.ACLPolicy{Name: name}, nil))(t)
		longer, meta := await(t, done)
		equal(t, len(longer), len(list)+1)
		done = wait()
		got(writer.PolicyDelete(made.ID, nil))(t)
		shorter, _ := await(t, done)
		equal(t, len(shorter), len(list))
	})
}

func TestAReaderOfAnAbsentPolicyIsWokenWhenItIsMade(t *testing.T) {
	each(t, func(t *testing.T, name string, writer, reader *api.ACL) {
		_, meta, err := reader.PolicyReadByName(name, nil)
		must(t, err)
		done := park(func() (*api.ACLPolicy, *api.QueryMeta, error) {
			return reader.PolicyReadByName(name, after(meta))
		})
		other, _ := both(writer.PolicyCreate(&api.ACLPolicy{Name: name + "-other"}, nil))(t)
		still(t, done)
		made, _ := both(writer.PolicyCreate(&api.ACLPolicy{Name: name}, nil))(t)
		have, _ := await(t, done)
		equal(t, have.ID, made.ID)
		for _, id := range []string{made.ID, other.ID} {
			got(writer.PolicyDelete(id, nil))(t)
		}
	})
}

func TestAWaitThatEndsHasTheDataAsItIs(t *testing.T) {
	each(t, func(t *testing.T, _ string, _, reader *api.ACL) {
		list, meta := both(reader.PolicyList(nil))(t)
		begun := time.Now()
		options := &api.QueryOptions{WaitIndex: meta.LastIndex, WaitTime: time.Second}
		same, told := both(reader.PolicyList(options))(t)
		equal(t, same, list)
		equal(t, told.LastIndex, meta.LastIndex)
		if waited := time.Since(begun); waited < time.Second || waited > 30*time.Second {
			t.Fatalf("waited for %s", waited)
		}
	})
}
