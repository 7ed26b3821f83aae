// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/cmd/paracuda/children"
	"github.com/paracuda/paracuda/cmd/paracuda/logs"
	"github.com/paracuda/paracuda/gpubackend/loglimit"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/internal/plain"
)

// TestLogIsBounded at each level, and says how many lines were held back.
func TestLogIsBounded(t *testing.T) {
	const flood = 3000
	for level, most := range map[string]int{"info": 20, "debug": 20 * logs.DebugTimes} {
		var out strings.Builder
		log, end, err := logs.New(&out, &logs.Flags{Level: level}, "worker")
		if err != nil {
			t.Fatal(err)
		}
		for range flood {
			log.WithField("program", "line\nbreak").Warn("what a guest does wrong")
		}
		loglimit.Keep(log).Info("worker ends")
		end()
		written := strings.Count(out.String(), `msg="what a guest does wrong"`)
		if written < 10 || written > most+most/10 {
			t.Errorf("%s: %d lines of a flood", level, written)
		}
		if n := heldBack(t, out.String()); n != flood-written {
			t.Errorf("%s: %d of %d lines held back are said", level, n, flood-written)
		}
		if !strings.Contains(out.String(), `msg="worker ends"`) {
			t.Errorf("%s: the end isn't logged", level)
		}
	}
}

// TestLinesNameTheVM: each line of each of a VM's processes names the VM, also after the device
// process died. A worker's lines name its program, too.
func TestLinesNameTheVM(t *testing.T) {
	v := newKeptVM(t, "--log-format", "json", "--log-level", "debug", "--name", "training")
	v.must(wire.ControlOpen, 0, 0)
	v.kill()
	within(t, "the next device process goes on", func() bool {
		return strings.Contains(v.log.String(), "goes on with the front end")
	})
	v.end()
	roles, named := map[string]bool{}, false
	for line := range strings.Lines(v.log.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Errorf("%q: %v", line, err)
			continue
		}
		role, _ := fields["role"].(string)
		roles[role] = true
		if fields["vm"] != "training" || role == "" || fields["time"] == nil {
			t.Errorf("%s", line)
		}
		named = named || role == "worker" && fields["program"] != nil && fields["guest_pid"] == 9.0
	}
	for _, role := range []string{"keeper", "device", "worker"} {
		if !roles[role] {
			t.Errorf("no line of %s: %v", role, roles)
		}
	}
	if !named {
		t.Errorf("no line of a worker names its program:\n%s", v.log)
	}
}

// heldBack is how many lines were held back according to a log. A log says it several times while
// a flood lasts.
func heldBack(t *testing.T, log string) (sum int) {
	t.Helper()
	for _, text := range regexp.MustCompile(` lines=(\d+) `).FindAllStringSubmatch(log, -1) {
		n, err := strconv.Atoi(text[1])
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

// TestNamesOfProgramsAreTextOnly: a guest's program chooses its name, and the owner's terminal
// shows it.
func TestNamesOfProgramsAreTextOnly(t *testing.T) {
	if got := plain.Text("a\x1b[2J\tb\nc\xffé d"); got != "a?[2J?b?c\ufffdé d" {
		t.Errorf("%q", got)
	}
}

// TestChildrensLogIsBounded, however much they write, and says how many lines were held back.
func TestChildrensLogIsBounded(t *testing.T) {
	var said, passed strings.Builder
	log, endLog, err := logs.New(&said, &logs.Flags{Level: "info"}, "device")
	if err != nil {
		t.Fatal(err)
	}
	file, end, err := children.Log(&passed, log, nil)
	if err != nil {
		t.Fatal(err)
	}
	const flood = 30000
	line := strings.Repeat("x", 99) + "\n"
	for range flood {
		if _, err := file.WriteString(line); err != nil {
			t.Fatal(err)
		}
	}
	end()
	endLog()
	written := strings.Count(passed.String(), line)
	if least := int(loglimit.Children.Bytes.Burst) / len(line); written < least ||
		written > 2*least {
		t.Errorf("%d lines were passed on", written)
	}
	if n := heldBack(t, said.String()); n != flood-written {
		t.Errorf("%d of %d lines held back are said: %q", n, flood-written, said.String())
	}
}
