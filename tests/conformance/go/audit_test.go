package conformance

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/vault/api"
)

// lines gives the records of an audit file.
func lines(t *testing.T, path string) []map[string]any {
	t.Helper()
	var records []map[string]any
	scan := bufio.NewScanner(bytes.NewReader(got(os.ReadFile(path))(t)))
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		var record map[string]any
		must(t, json.Unmarshal(scan.Bytes(), &record))
		records = append(records, record)
	}
	return records
}

func TestAFileRecordsWhatTheClientHashes(t *testing.T) {
	client := connect(t)
	sys := client.Sys()
	path := filepath.Join(t.TempDir(), "audit.log")
	options := &api.EnableAuditOptions{
		Type: "file", Description: "for the test", Options: map[string]string{"file_path": path},
	}
	must(t, sys.EnableAuditWithOptions("conformance", options))
	refused(t, sys.EnableAuditWithOptions("conformance", options), http.StatusBadRequest, "path already in use")
	device := got(sys.ListAudit())(t)["conformance/"]
	equal(t, []string{device.Type, device.Description, device.Path, device.Options["file_path"]},
		[]string{"file", "for the test", "conformance/", path})

	const secret = "a-value-of-this-test-alone"
	got(client.KVv2("secret").Put(t.Context(), "audited", map[string]any{"word": secret}))(t)
	hash := got(sys.AuditHash("conformance", secret))(t)
	token := got(sys.AuditHash("conformance", client.Token()))(t)
	must(t, sys.DisableAudit("conformance"))

	found := 0
	for _, record := range lines(t, path) {
		request, _ := record["request"].(map[string]any)
		if request["path"] != "secret/data/audited" {
			continue
		}
		found++
		data := request["data"].(map[string]any)["data"].(map[string]any)
		equal(t, []any{data["word"], request["client_token"]}, []any{hash, token})
	}
	equal(t, found, 2)
	if bytes.Contains(got(os.ReadFile(path))(t), []byte(secret)) {
		t.Fatal("the value is in the file")
	}
	if device := got(sys.ListAudit())(t)["conformance/"]; device != nil {
		t.Fatalf("have %+v", device)
	}
}

func TestHeadersThatRecordsShow(t *testing.T) {
	logical := connect(t).Logical()
	const all = "sys/config/auditing/request-headers"
	got(logical.Write(all+"/X-Go", map[string]any{"hmac": true}))(t)
	want := map[string]any{"x-go": map[string]any{"hmac": true}}
	equal(t, got(logical.Read(all))(t).Data["headers"], any(want))
	equal(t, got(logical.Read(all+"/x-go"))(t).Data, want)
	got(logical.Delete(all + "/X-Go"))(t)
	_, err := logical.Read(all + "/x-go")
	refused(t, err, http.StatusBadRequest, "")
}
