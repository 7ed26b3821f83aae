// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/turns"
)

const good = `# shares
[default]
weight = 50

[vm.web-1]
weight = 300
class = "latency"
turn = "2ms"

[vm."db.2"]
time-limit = 30
memory = "8G"
memory-guarantee = "4G"
processes = 4
`

// write makes a file with a text.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "arbiter.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFile(t *testing.T) {
	table, err := ReadFile(write(t, good))
	if err != nil {
		t.Fatal(err)
	}
	want := &Table{
		Default: &Policy{Time: turns.Policy{Weight: 50}},
		VMs: map[string]Policy{
			"web-1": {Time: turns.Policy{
				Weight: 300, Class: turns.Latency, Turn: 2 * time.Millisecond,
			}},
			"db.2": {
				Time:   turns.Policy{Limit: 30},
				Memory: 8 << 30, Guarantee: 4 << 30, Processes: 4,
			},
		},
	}
	if !reflect.DeepEqual(table, want) {
		t.Errorf("%+v\nwant %+v", table, want)
	}
	if p, ok := table.Of("other"); !ok || p.Time.Weight != 50 {
		t.Errorf("another VM has %+v, %v", p, ok)
	}
	if p, ok := (&Table{}).Of("other"); ok {
		t.Errorf("without a default another VM has %+v", p)
	}
}

func TestFileMistakes(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"syntax":           {"[vm.a]\nweight = = 3\n", "line 2"},
		"no section":       {"\nweight = 3\n", "line 2: at weight: want sections"},
		"a key":            {"[vm.a]\nweight = 3\nweigth = 3\n", "line 3: at vm.a.weigth: \"weig"},
		"a key, a list":    {"[vm.a]\nweigth = [3]\n", "line 2: at vm.a.weigth: \"weig"},
		"a section":        {"[vm.a]\n[vms.b]\nweight = 3\n", "at vms: want sections"},
		"VMs":              {"vm = 3\n", "line 1: at vm: want a section"},
		"a VM":             {"[vm]\na = 3\n", "line 2: at vm.a: want a section"},
		"weight":           {"[vm.a]\n\nweight = 10001\n", "line 3: at vm.a.weight: weight=10001"},
		"weight 0":         {"[vm.a]\nweight = 0\n", "line 2: at vm.a.weight: weight=0"},
		"weight, negative": {"[vm.a]\nweight = -5\n", "line 2: at vm.a.weight: weight=-5"},
		"weight, empty":    {"[vm.a]\nweight = \"\"\n", "line 2: at vm.a.weight: weight="},
		"weight, no text":  {"[vm.a]\nweight = [1]\n", "line 2: at vm.a.weight: weight: w"},
		"weight, huge":     {"[vm.a]\nweight = 99999999999999999999\n", "line 2"},
		"limit":            {"[default]\ntime-limit = 101\n", "line 2: at default.time-limit: t"},
		"class":            {"[default]\nclass = \"fast\"\n", "class=fast: want batch or latency"},
		"turn":             {"[default]\nturn = \"1h\"\n", "line 2: at default.turn: turn=1h"},
		"memory":           {"[default]\nmemory = \"8GB\"\n", "memory=8GB: size"},
		"memory, huge":     {"[default]\nmemory = \"99999999T\"\n", "memory=99999999T: size"},
		"memory 0":         {"[default]\nmemory = 0\n", "line 2: at default.memory: memory=0"},
		"processes":        {"[default]\nprocesses = 65\n", "processes=65: want a number from 1"},
		"a guarantee": {
			"\n[vm.a]\nmemory = \"1G\"\nmemory-guarantee = \"2G\"\n", "line 2: at vm.a: memory",
		},
		"a VM's name": {"[vm.\"a/b\"]\nweight = 3\n", "line 1: at vm.\"a/b\": VM name"},
		"twice":       {"[vm.a]\nweight = 3\n[vm.a]\nweight = 4\n", "line 3"},
	} {
		table, err := ReadFile(write(t, c.text))
		switch {
		case err == nil:
			t.Errorf("%s: %+v, want an error", name, table)
		case !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n"):
			t.Errorf("%s: %q, want one line with %q", name, err, c.want)
		}
	}
	if _, err := ReadFile(write(t, strings.Repeat("#\n", maxFile))); err == nil {
		t.Error("a huge file: no error")
	}
	if _, err := ReadFile(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("no file: no error")
	}
}

// FuzzFile reads any text: a policy that is accepted is valid.
func FuzzFile(f *testing.F) {
	f.Add(good)
	f.Add("[vm.a]\nweight = 10001\n")
	f.Fuzz(func(t *testing.T, text string) {
		table, _, err := parse([]byte(text))
		if (err == nil) == (table == nil) {
			t.Fatalf("%v, %v", table, err)
		}
		if err != nil {
			return
		}
		for name, p := range table.VMs {
			if CheckName(name) != nil || p.Check() != nil {
				t.Errorf("%q has %+v", name, p)
			}
		}
	})
}
