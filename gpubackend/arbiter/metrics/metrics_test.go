// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

func sample() []link.VM {
	return []link.VM{
		{Name: "idle", GPUs: []link.GPU{{Name: "soft", Memory: 2 << 30}}},
		{
			Name: "busy", GPUs: []link.GPU{{Name: "GPU-1"}, {Name: "GPU-2"}}, Share: 0.25,
			Policy: map[string]string{"weight": "300", "time-limit": "30", "memory": "8G"},
			HeldNS: 2.5e9, WaitedNS: 1e9, Turns: 7, Overruns: 2, DebtNS: 5e8,
			Figures: &link.Figures{
				Memory:   map[string]uint64{"window": 1 << 30, "code": 1 << 20},
				Counters: map[string]uint64{"launches": 5, "bytes_copied": 6, "gpu_time_ns": 3e9},
				Faults: []link.Fault{{GPU: 1, Result: cudaabi.ErrorUnknown},
					{GPU: 1, Result: cudaabi.ErrorECCUncorrectable}},
				Processes: []link.Process{
					{PID: 7, Name: "a\"\n\x1b\xff",
						Memory: map[string]uint64{"window": 9, "code": 8},
						Counters: map[string]uint64{"gpu_time_ns": 5e8, "turn_wait_ns": 15e8,
							"turns_used": 6, "turns_overrun": 1, "launches": 4,
							"bytes_copied": 3, "bytes_mapped": 2, "errors": 1}},
					{PID: 7, Name: "twin"},
				},
			},
		},
		{
			Name: "out", GPUs: []link.GPU{{Name: "soft"}}, Place: "out",
			Swaps: 3, Swapped: 4096, SwapNS: 15e8, OutNS: 2e9, Unmoved: 1,
		},
	}
}

// serve serves the metrics of sample, and returns the address.
func serve(t *testing.T, processes bool) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = Serve(l, sample, processes)
	}()
	t.Cleanup(func() { l.Close(); <-served })
	return l.Addr().String()
}

// alone makes a connection for each request.
var alone = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// scrape returns the text of the metrics.
func scrape(t *testing.T, address string) string {
	t.Helper()
	r, err := alone.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v: %s", r.Status, err, text)
	}
	return string(text)
}

func TestFigures(t *testing.T) {
	text := scrape(t, serve(t, false))
	const busy = `{vm="busy",gpu="GPU-1,GPU-2"} `
	for _, line := range []string{
		"DCGM_FI_DEV_GPU_UTIL" + busy + "25",
		"DCGM_FI_DEV_FB_USED" + busy + "1025",
		"DCGM_FI_DEV_FB_FREE" + busy + "15359",
		"DCGM_FI_DEV_FB_TOTAL" + busy + "16384", // 8 GiB of each of its two GPUs
		`DCGM_FI_DEV_FB_TOTAL{vm="idle",gpu="soft"} 2048`,
		"paracuda_held_seconds_total" + busy + "2.5",
		"paracuda_waited_seconds_total" + busy + "1",
		"paracuda_gpu_faults" + busy + "1",
		"paracuda_debt_seconds" + busy + "0.5",
		"paracuda_turns_total" + busy + "7",
		"paracuda_overruns_total" + busy + "2",
		"paracuda_weight" + busy + "300",
		"paracuda_gpu_seconds_total" + busy + "3",
		"paracuda_launches_total" + busy + "5",
		"paracuda_copied_bytes_total" + busy + "6",
		`paracuda_memory_bytes{vm="busy",gpu="GPU-1,GPU-2",kind="code"} 1.048576e+06`,
		`paracuda_turns_total{vm="idle",gpu="soft"} 0`,
		`paracuda_swaps_total{vm="out",gpu="soft"} 3`,
		`paracuda_swapped_bytes_total{vm="out",gpu="soft"} 4096`,
		`paracuda_swap_failures_total{vm="out",gpu="soft"} 1`,
		`paracuda_swapping_seconds_total{vm="out",gpu="soft"} 1.5`,
		`paracuda_swapped_out_seconds_total{vm="out",gpu="soft"} 2`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no %q", line)
		}
	}
	for _, line := range []string{
		"_process_", `paracuda_launches_total{vm="idle"`, "errors_total{",
		`paracuda_swaps_total{vm="idle"`,
	} {
		if strings.Contains(text, line) {
			t.Errorf("there is %q, of which nothing is known", line)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

func TestFiguresOfProcesses(t *testing.T) {
	text := scrape(t, serve(t, true))
	const process = `{vm="busy",gpu="GPU-1,GPU-2",pid="7",process="a\"???"`
	for _, line := range []string{
		"memory_bytes" + process + `,kind="code"} 8`,
		"memory_bytes" + process + `,kind="window"} 9`,
		"gpu_seconds_total" + process + "} 0.5",
		"waited_seconds_total" + process + "} 1.5",
		"turns_total" + process + "} 6",
		"overruns_total" + process + "} 1",
		"launches_total" + process + "} 4",
		"copied_bytes_total" + process + "} 5",
		"errors_total" + process + "} 1",
	} {
		if !strings.Contains(text, "\nparacuda_process_"+line+"\n") {
			t.Errorf("no %q", line)
		}
	}
	if strings.Contains(text, "twin") {
		t.Error("a number twice")
	}
	if t.Failed() {
		t.Log(text)
	}
}

// series matches a line that isn't a comment.
var series = regexp.MustCompile(
	`^[a-zA-Z_]+(\{([a-z]+="([^"\\\n]|\\[\\"n])*",?)+\})? [0-9][0-9.e+]*$`)

// FuzzText gives a process any name: the text stays well-formed.
func FuzzText(f *testing.F) {
	f.Add("python3")
	f.Add("a\"} 1\nb{x=\"\\")
	f.Fuzz(func(t *testing.T, name string) {
		vms := sample()
		vms[1].Figures.Processes[0].Name = name
		for line := range strings.Lines(Text(vms, true)) {
			if line = strings.TrimSuffix(line, "\n"); line[0] != '#' && !series.MatchString(line) {
				t.Errorf("%q", line)
			}
		}
	})
}

// TestIdleScrapers opens one connection more than are served: that one is closed. When the others
// have ended there is room again.
func TestIdleScrapers(t *testing.T) {
	address := serve(t, false)
	var idle []net.Conn
	for range maxScrapers + 1 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		idle = append(idle, c)
	}
	last := idle[maxScrapers]
	_ = last.SetReadDeadline(time.Now().Add(time.Minute))
	_, err := last.Read(make([]byte, 1))
	if err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("one too many: %v", err)
	}
	for _, c := range idle {
		c.Close()
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if r, err := alone.Get("http://" + address + "/metrics"); err == nil {
			r.Body.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatal("there is no room again")
		}
	}
}
