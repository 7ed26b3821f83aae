// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const alerts = "packaging/prometheus/paracuda.rules.yml"

// prometheus is one of Prometheus's programs.
func prometheus(t *testing.T, name string) string {
	t.Helper()
	if testing.Short() {
		skip(t, "-short: Prometheus may be missing")
	}
	file := cached("prometheus/" + name)
	if _, err := os.Stat(file); err != nil {
		skip(t, "no Prometheus here: run scripts/fetch-prometheus: %v", err)
	}
	return file
}

// TestAlerts checks the alerts with promtool, and tests them with series.
func TestAlerts(t *testing.T) {
	t.Parallel()
	promtool := prometheus(t, "promtool")
	for _, args := range [][]string{
		{"check", "rules", alerts}, {"test", "rules", "tests/scripts/paracuda.rules-test.yml"},
	} {
		r := command(t, time.Minute, root, append([]string{promtool}, args...)...)
		if r.exit != 0 {
			t.Errorf("promtool %s: exit code %d:%s%s", strings.Join(args, " "), r.exit,
				tail(r.stdout), tail(r.stderr))
		}
	}
}

// freeAddress is an address of this machine where nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// get is a server's answer, or nothing while there is none.
func get(t *testing.T, address string) string {
	t.Helper()
	client := http.Client{Timeout: 10 * time.Second}
	r, err := client.Get(address)
	if err != nil {
		return ""
	}
	defer r.Body.Close()
	text, err := io.ReadAll(io.LimitReader(r.Body, 8<<20))
	if err != nil || r.StatusCode != http.StatusOK {
		return ""
	}
	return string(text)
}

// TestPrometheus has Prometheus scrape an arbiter with a VM that computes. Every query of the
// dashboard has an answer then, and every alert is evaluated.
func TestPrometheus(t *testing.T) {
	boots(t)
	promtool, server := prometheus(t, "promtool"), prometheus(t, "prometheus")
	address := freeAddress(t)
	h := newSharedHost(t, "--metrics", address, "--process-metrics")
	h.works(h.vm("a", nil, "2000", "40"), "a")
	var metrics string
	until(t, time.Minute, "the metrics have the program's memory", func() bool {
		metrics = get(t, "http://"+address+"/metrics")
		return strings.Contains(metrics, "paracuda_process_memory_bytes{")
	})
	lint(t, promtool, metrics)

	api := "http://" + startPrometheus(t, server, address) + "/api/v1/"
	for _, q := range dashboardQueries(t) {
		until(t, time.Minute, "an answer to "+q, func() bool {
			return answers(t, get(t, api+"query?query="+url.QueryEscape(q)))
		})
	}
	until(t, time.Minute, "all alerts are evaluated", func() bool {
		return evaluated(t, get(t, api+"rules"))
	})
}

// lint checks the metrics with promtool. It may only complain of the names that dcgm-exporter has.
func lint(t *testing.T, promtool, metrics string) {
	t.Helper()
	c := exec.Command(promtool, "check", "metrics")
	c.Stdin = strings.NewReader(metrics)
	out, err := c.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, "DCGM_FI_") {
			t.Errorf("promtool check metrics: %s", line)
		}
	}
	if err != nil && len(out) == 0 {
		t.Errorf("promtool check metrics: %v", err)
	}
}

// startPrometheus starts a Prometheus that scrapes an address every second. It returns Prometheus's
// own address.
func startPrometheus(t *testing.T, server, target string) (address string) {
	t.Helper()
	dir, address := t.TempDir(), freeAddress(t)
	config := fmt.Sprintf(`
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%s]
scrape_configs:
  - job_name: paracuda
    static_configs: [{targets: ["%s"]}]
`, filepath.Join(root, alerts), target)
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	inBackground(t, server, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "db"),
		"--web.listen-address="+address, "--log.level=error")
	return address
}

// dashboardQueries are the queries of the dashboard, as Grafana would send them.
func dashboardQueries(t *testing.T) (list []string) {
	t.Helper()
	var dashboard struct {
		Panels []struct {
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(read(t, "packaging/grafana/paracuda.json"), &dashboard); err != nil {
		t.Fatal(err)
	}
	set := strings.NewReplacer("$vm", ".*", "$__rate_interval", "20s")
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			list = append(list, set.Replace(target.Expr))
		}
	}
	if len(list) < 10 {
		t.Fatalf("the dashboard has %d queries, want at least 10", len(list))
	}
	return list
}

// answers says whether Prometheus has series for a query.
func answers(t *testing.T, text string) bool {
	t.Helper()
	var a struct {
		Status string
		Data   struct{ Result []json.RawMessage }
	}
	return json.Unmarshal([]byte(text), &a) == nil && a.Status == "success" &&
		len(a.Data.Result) > 0
}

// evaluated says whether Prometheus has evaluated each alert without an error.
func evaluated(t *testing.T, text string) bool {
	t.Helper()
	var a struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	if json.Unmarshal([]byte(text), &a) != nil {
		return false
	}
	n := 0
	for _, g := range a.Data.Groups {
		for _, r := range g.Rules {
			if r.LastError != "" {
				t.Fatalf("%s: %s", r.Name, r.LastError)
			}
			if r.Health == "ok" {
				n++
			}
		}
	}
	return n == strings.Count(string(read(t, alerts)), "- alert: ")
}
