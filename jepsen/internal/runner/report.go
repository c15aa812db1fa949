package runner

import (
	"encoding/json"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"holdfast/jepsen/internal/history"
	"holdfast/jepsen/internal/judge"
)

// afterwards looks at what the nodes left behind. The nodes still run, and nobody asks them any more.
func (r *run) afterwards() {
	if state, err := r.cluster.EqualRoots(); err != nil {
		r.find("%v", err)
	} else {
		r.note("every node has root %.16s at version %d", state.Root, state.Version)
	}
	if r.cluster.Other != nil {
		if err := r.cluster.EqualPair(); err != nil {
			r.find("%v", err)
		}
	}
	for _, text := range r.cluster.Findings(r.env.Marker, r.cluster.Token) {
		r.find("%s", text)
	}
}

// report writes the verdict, the times and the pictures; keeps the files of the nodes if anything was
// found.
func (r *run) report(h *history.History, v judge.Verdict) error {
	text, err := json.MarshalIndent(r.result, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.dir, "result.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.dir, "verdict"), []byte(r.verdict(h)), 0o644); err != nil {
		return err
	}
	if err := r.timeline(h); err != nil {
		return err
	}
	if err := pictures(r.dir, v); err != nil {
		return err
	}
	if len(r.result.Findings) == 0 {
		return os.RemoveAll(filepath.Join(r.dir, "nodes"))
	}
	return nil
}

func (r *run) verdict(h *history.History) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s\nagain: %s\n", r.plan.Name(), r.plan.Command())
	if where := r.result.Where(); where != "" {
		fmt.Fprintf(&text, "%s\n", where)
	}
	fmt.Fprintf(&text, "%d operations, %.0f %% of them during faults; %d faults, %d elections\n",
		r.result.Operations, 100*r.result.Overlap, r.result.Faults, r.result.Elections)
	for _, note := range r.result.Notes {
		fmt.Fprintf(&text, "%s\n", note)
	}
	text.WriteString("\nfaults, and the longest time without an acknowledged write in each:\n")
	for _, f := range h.Faults {
		gap := r.probe.longestGap(f.Start, min(f.End+int64(backWithin), r.lastProbe()))
		fmt.Fprintf(&text, "%8.3f to %8.3f s  %6.0f ms  %s: %s\n", float64(f.Start)/1e9, float64(f.End)/1e9,
			float64(gap)/1e6, f.Fault, f.What)
	}
	text.WriteString("\nlatency of operations with a known outcome, ms:\n")
	for _, line := range latencies(h) {
		fmt.Fprintln(&text, line)
	}
	fmt.Fprintf(&text, "\n%d findings\n", len(r.result.Findings))
	for _, finding := range r.result.Findings {
		fmt.Fprintf(&text, "%s\n", finding)
	}
	return text.String()
}

// latencies of each kind of operation, during faults and without.
func latencies(h *history.History) (lines []string) {
	of := map[string][]int64{}
	for _, o := range h.Ops {
		if o.Type != history.OK || o.Final {
			continue
		}
		when := "quiet"
		if overlaps(o, h.Faults) {
			when = "fault"
		}
		name := fmt.Sprintf("%-10s %s", o.F, when)
		of[name] = append(of[name], o.Return-o.Invoke)
	}
	for name, all := range of {
		sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
		at := func(part float64) float64 { return float64(all[int(part*float64(len(all)-1))]) / 1e6 }
		lines = append(lines, fmt.Sprintf("%s  n %6d  p50 %8.2f  p99 %8.2f  max %8.2f", name, len(all), at(0.5), at(0.99), at(1)))
	}
	sort.Strings(lines)
	return lines
}

// The timeline: a row a client, a bar an operation, faults behind them, and below the acknowledged
// writes of the prober in each tenth of a second.
func (r *run) timeline(h *history.History) error {
	type bar struct {
		Process     int
		Start, End  float64 // ms
		Type, Title string
	}
	end := int64(0)
	for _, o := range h.Ops {
		end = max(end, o.Invoke)
		if o.Return != history.Open {
			end = max(end, o.Return)
		}
	}
	rows := map[int]int{}
	var bars []bar
	for _, o := range h.Ops {
		if _, known := rows[o.Process]; !known {
			rows[o.Process] = len(rows)
		}
		back := min(o.Return, end)
		bars = append(bars, bar{rows[o.Process], float64(o.Invoke) / 1e6, float64(back) / 1e6, string(o.Type), o.String()})
	}
	tenths := make([]int, end/int64(100*time.Millisecond)+1)
	for _, s := range r.probe.good {
		if at := s.back / int64(100*time.Millisecond); at >= 0 && at < int64(len(tenths)) {
			tenths[at]++
		}
	}
	f, err := os.Create(filepath.Join(r.dir, "timeline.html"))
	if err != nil {
		return err
	}
	defer f.Close()
	return page.Execute(f, map[string]any{"Name": r.plan.Name(), "Bars": bars, "Faults": h.Faults, "Rows": len(rows), "Tenths": tenths,
		"Findings": r.result.Findings})
}

var page = template.Must(template.New("timeline").Parse(`<!doctype html>
<meta charset="utf-8"><title>{{.Name}}</title>
<style>body{font:13px sans-serif;margin:1em}canvas{display:block}#t{white-space:pre-wrap;height:4em;font-family:monospace}
.box{overflow-x:scroll;border:1px solid #ccc}pre{white-space:pre-wrap}</style>
<h1>{{.Name}}</h1>
<p>Green: known outcome. Orange: unknown. Red: never happened. Grey behind: a fault. Below: writes acknowledged in each tenth of
a second. Scale: <input id="z" type="range" min="5" max="500" value="30"></p>
<div id="t"></div><div class="box"><canvas id="c"></canvas></div>
{{range .Findings}}<pre>{{.}}</pre>{{end}}
<script>
const bars={{.Bars}}||[],faults={{.Faults}}||[],rows={{.Rows}},tenths={{.Tenths}};
const c=document.getElementById("c"),z=document.getElementById("z"),t=document.getElementById("t");
const high=14,foot=60,colour={ok:"#3a3",info:"#e90",fail:"#c33"};let scale;
function draw(){
  const end=tenths.length*100;scale=Math.min(z.value/1000,30000/end);
  c.width=end*scale;c.height=rows*high+foot;const g=c.getContext("2d");
  g.fillStyle="#ddd";for(const f of faults)g.fillRect(f.start/1e6*scale,0,(f.end-f.start)/1e6*scale,c.height);
  for(const b of bars){g.fillStyle=colour[b.Type];g.fillRect(b.Start*scale,b.Process*high+2,Math.max(1,(b.End-b.Start)*scale),high-4)}
  const most=Math.max(1,...tenths);g.fillStyle="#36c";
  tenths.forEach((n,i)=>g.fillRect(i*100*scale,c.height-n/most*foot,Math.max(1,100*scale-1),n/most*foot));
}
c.onmousemove=e=>{
  const x=e.offsetX/scale,row=Math.floor(e.offsetY/high);
  const here=bars.filter(b=>b.Process==row&&b.Start<=x+1/scale&&b.End>=x-1/scale).map(b=>b.Title);
  const harm=faults.filter(f=>f.start/1e6<=x&&f.end/1e6>=x).map(f=>f.what);
  t.textContent=(x/1000).toFixed(3)+" s "+harm.join("; ")+"\n"+here.slice(0,3).join("\n");
};
z.oninput=draw;draw();
</script>
`))
