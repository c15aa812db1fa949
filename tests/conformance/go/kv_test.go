package conformance

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/hashicorp/vault/api"
)

var background = context.Background()

func TestKeyValueVersion1(t *testing.T) {
	client := connect(t)
	kv := client.KVv1("kv")
	must(t, kv.Put(background, "go/a", map[string]any{"s": "ü"}))
	must(t, kv.Put(background, "go/b/c", map[string]any{"s": true}))
	equal(t, got(kv.Get(background, "go/a"))(t).Data, map[string]any{"s": "ü"})
	equal(t, got(client.Logical().List("kv/go"))(t).Data["keys"], []any{"a", "b/"})
	must(t, kv.Delete(background, "go/a"))
	if _, err := kv.Get(background, "go/a"); !errors.Is(err, api.ErrSecretNotFound) {
		t.Fatal(err)
	}
}

func TestKeyValueVersion2WritesAndReads(t *testing.T) {
	client := connect(t)
	kv := client.KVv2("secret")
	first := got(kv.Put(background, "go/a", map[string]any{"n": "1"}, api.WithCheckAndSet(0)))(t)
	equal(t, first.VersionMetadata.Version, 1)
	if first.VersionMetadata.CreatedTime.IsZero() || !first.VersionMetadata.DeletionTime.IsZero() {
		t.Fatalf("%+v", first.VersionMetadata)
	}
	got(kv.Put(background, "go/a", map[string]any{"n": "2"}))(t)
	_, err := kv.Put(background, "go/a", map[string]any{"n": "3"}, api.WithCheckAndSet(1))
	refused(t, err, http.StatusBadRequest, "check-and-set")
	equal(t, got(kv.Get(background, "go/a"))(t).Data, map[string]any{"n": "2"})
	equal(t, got(kv.GetVersion(background, "go/a", 1))(t).Data, map[string]any{"n": "1"})
	equal(t, len(got(kv.GetVersionsAsList(background, "go/a"))(t)), 2)
	equal(t, got(kv.Rollback(background, "go/a", 1))(t).VersionMetadata.Version, 3)
	equal(t, got(kv.Get(background, "go/a"))(t).Data, map[string]any{"n": "1"})
	equal(t, got(client.Logical().List("secret/metadata/go"))(t).Data["keys"], []any{"a"})
	if _, err := kv.Get(background, "go/none"); !errors.Is(err, api.ErrSecretNotFound) {
		t.Fatal(err)
	}
}

func TestKeyValueVersion2Patches(t *testing.T) {
	kv := connect(t).KVv2("secret")
	_, err := kv.Patch(background, "go/patch", map[string]any{"a": "1"})
	if !errors.Is(err, api.ErrSecretNotFound) {
		t.Fatal(err)
	}
	got(kv.Put(background, "go/patch", map[string]any{"a": "1", "b": "2"}))(t)
	for version, method := range []string{api.KVMergeMethodPatch, api.KVMergeMethodReadWrite} {
		done := got(kv.Patch(background, "go/patch", map[string]any{"b": method},
			api.WithMergeMethod(method)))(t)
		equal(t, done.VersionMetadata.Version, version+2)
		want := map[string]any{"a": "1", "b": method}
		equal(t, got(kv.Get(background, "go/patch"))(t).Data, want)
	}
	got(kv.Patch(background, "go/patch", map[string]any{"a": nil}))(t)
	equal(t, len(got(kv.Get(background, "go/patch"))(t).Data), 1)
}

func TestKeyValueVersion2DeletesUndeletesAndDestroys(t *testing.T) {
	client := connect(t)
	kv := client.KVv2("secret")
	for _, n := range []string{"1", "2", "3"} {
		got(kv.Put(background, "go/del", map[string]any{"n": n}))(t)
	}
	must(t, kv.Delete(background, "go/del"))
	gone := got(kv.Get(background, "go/del"))(t)
	equal(t, gone.Data, map[string]any(nil))
	equal(t, gone.VersionMetadata.DeletionTime.IsZero(), false)
	must(t, kv.DeleteVersions(background, "go/del", []int{1}))
	must(t, kv.Undelete(background, "go/del", []int{1, 3}))
	equal(t, got(kv.Get(background, "go/del"))(t).Data, map[string]any{"n": "3"})
	must(t, kv.Destroy(background, "go/del", []int{2}))
	versions := got(kv.GetMetadata(background, "go/del"))(t).Versions
	equal(t, []bool{versions["1"].Destroyed, versions["2"].Destroyed}, []bool{false, true})
	must(t, kv.DeleteMetadata(background, "go/del"))
	if _, err := kv.GetMetadata(background, "go/del"); !errors.Is(err, api.ErrSecretNotFound) {
		t.Fatal(err)
	}
}

func TestKeyValueVersion2Metadata(t *testing.T) {
	kv := connect(t).KVv2("secret")
	must(t, kv.PutMetadata(background, "go/meta", api.KVMetadataPutInput{CASRequired: true,
		MaxVersions: 4, DeleteVersionAfter: time.Hour, CustomMetadata: map[string]any{"a": "b"}}))
	most, after := 5, 2*time.Hour
	must(t, kv.PatchMetadata(background, "go/meta", api.KVMetadataPatchInput{MaxVersions: &most,
		DeleteVersionAfter: &after, CustomMetadata: map[string]any{"c": "d"}}))
	have := got(kv.GetMetadata(background, "go/meta"))(t)
	equal(t, []any{have.CASRequired, have.MaxVersions, have.DeleteVersionAfter},
		[]any{true, 5, 2 * time.Hour})
	equal(t, have.CustomMetadata, map[string]any{"a": "b", "c": "d"})
	_, err := kv.Put(background, "go/meta", map[string]any{"n": "1"})
	refused(t, err, http.StatusBadRequest, "check-and-set")
	made := got(kv.Put(background, "go/meta", map[string]any{"n": "1"}, api.WithCheckAndSet(0)))(t)
	equal(t, made.CustomMetadata, map[string]any{"a": "b", "c": "d"})
	equal(t, made.VersionMetadata.DeletionTime.IsZero(), false)
}

func TestKeyValueVersion2IsSetUpAndUpgraded(t *testing.T) {
	client := connect(t)
	must(t, client.Sys().Mount("go-up", &api.MountInput{Type: "kv"}))
	must(t, client.KVv1("go-up").Put(background, "a", map[string]any{"n": "1"}))
	must(t, client.Sys().TuneMount("go-up", api.MountConfigInput{
		Options: map[string]string{"version": "2"}}))
	equal(t, got(client.KVv2("go-up").Get(background, "a"))(t).Data, map[string]any{"n": "1"})
	got(client.Logical().Write("go-up/config", map[string]any{"max_versions": 2}))(t)
	equal(t, number(t, got(client.Logical().Read("go-up/config"))(t).Data["max_versions"]), int64(2))
	keys := got(client.Logical().Read("go-up/subkeys/a"))(t)
	equal(t, keys.Data["subkeys"], map[string]any{"n": nil})
	must(t, client.Sys().Mount("go-v2", &api.MountInput{Type: "kv-v2"}))
	equal(t, got(client.Sys().ListMounts())(t)["go-v2/"].Options["version"], "2")
}
