// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/device/admin"
	"github.com/paracuda/paracuda/internal/leaks"
)

// another is a version of the program in which one line is another one.
type another struct {
	name           string // of what differs
	file, is, will string // no file: nothing differs but the version
	why            string // the device's log says, if the version leaves the VM to the earlier one
	atNight        bool   // it is built at night only
}

var others = []another{
	{name: "version"},
	{"children", "gpubackend/handover/standing.go", "const Protocol = ", "const Protocol = 1",
		"its VM's workers speak version", false},
	{"facts", "gpubackend/remains/remains.go", "\tversion     = ", "\tversion     = 1",
		"bad facts of a process before this one", true},
	{"session", "gpubackend/resumption/resumption.go", "\tversion = ", "\tversion = 1",
		"bad state of a process before this one", true},
	{"roster", "gpubackend/roster/roster.go", "\tversion    = ", "\tversion    = 1",
		"take over children", true},
	{"numbers", "gpubackend/numbering/numbering.go", "\tversion   = ", "\tversion   = 1",
		"take over from the device process before", true},
}

// version is what that program says it is.
func (a *another) version() string { return "99.0-" + a.name }

// build builds it.
func (a *another) build(t *testing.T) (program string) {
	t.Helper()
	dir := t.TempDir()
	overlay := map[string]map[string]string{"Replace": {}}
	if a.file != "" {
		text := string(read(t, a.file))
		changed := strings.Replace(text, a.is, a.will, 1)
		if changed == text {
			t.Fatalf("%s has no %q", a.file, a.is)
		}
		to := filepath.Join(dir, filepath.Base(a.file))
		if err := os.WriteFile(to, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay["Replace"][filepath.Join(root, a.file)] = to
	}
	list, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay")
	if err := os.WriteFile(file, list, 0o600); err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(dir, "paracuda")
	if r := command(t, 10*time.Minute, root, "go", "build", "-trimpath", "-buildvcs=false",
		"-buildmode=pie", "-overlay", file, "-ldflags", "-X main.version="+a.version(),
		"-o", program, "./cmd/paracuda"); r.exit != 0 {
		t.Fatalf("build another version: %s", tail(r.stderr))
	}
	return program
}

// TestReplacedByAnotherVersion replaces the device process of a VM whose program computes by those
// of other versions. One with the same protocols goes on with the VM. Any other one leaves it to
// the earlier version, before it has changed anything, and `paracuda device --replace` says so.
func TestReplacedByAnotherVersion(t *testing.T) {
	notShort(t)
	t.Parallel()
	builds := map[string]string{}
	for _, a := range others {
		if a.atNight && !atNight {
			fmt.Printf("%s: without another version of %s; make nightly builds it\n", t.Name(),
				a.name)
			continue
		}
		builds[a.name] = a.build(t)
	}
	inOneByDay(t, func(t *testing.T, vm frontEnd) {
		dir := t.TempDir()
		installed, log := filepath.Join(dir, "paracuda"), filepath.Join(dir, "log")
		install(t, paracuda, installed)
		r := startKeptBy(t, vm, []string{"sh", "-c", `exec "$0" run --keeper on "$@" 2>` + log,
			installed}, filepath.Join(programs, "keeps"), "0")
		workers := r.workers()
		for _, a := range others {
			if builds[a.name] == "" {
				continue
			}
			install(t, builds[a.name], installed)
			before := r.version(t)
			r.replacedBy(t, installed, a)
			r.goesOn(t, a.name)
			want := before
			if a.why == "" {
				want = a.version()
			} else if text, _ := os.ReadFile(log); !strings.Contains(string(text), a.why) {
				t.Errorf("%s: the log doesn't say %q:%s", a.name, a.why, tail(string(text)))
			}
			if is := r.version(t); is != want {
				t.Errorf("%s: version %s goes on, want %s", a.name, is, want)
			}
		}
		r.kill() // nor was anything lost for the next one
		r.goesOn(t, "after a kill")
		r.must(t, "suspend")
		r.must(t, "resume")
		r.goesOn(t, "at the end")
		if now := r.workers(); len(now) != 1 || !slices.Equal(now, workers) {
			t.Errorf("the workers were %v, and are %v, want one and the same", workers, now)
		}
	})
}

// install puts a program at a path, in place of another one that may be executed now.
func install(t *testing.T, program, path string) {
	t.Helper()
	if r := command(t, time.Minute, root, "sh", "-c", `cp "$0" "$1.new" && mv "$1.new" "$1"`,
		program, path); r.exit != 0 {
		t.Fatalf("install a program: %s", r.stderr)
	}
}

// replacedBy has the program that is installed replace the device process, or be refused.
func (r *keptRig) replacedBy(t *testing.T, installed string, a another) {
	t.Helper()
	c := command(t, time.Minute, root, installed, "device", "--replace", "--control", r.socket)
	said, exit := "replaced: version "+a.version()+" goes on in place of ", 0
	if a.why != "" {
		said, exit = "can't go on with the VM", 1
	}
	if c.exit != exit || !strings.Contains(c.stdout+c.stderr, said) {
		t.Errorf("%s: exit code %d, %s%s, want %d, %q", a.name, c.exit, c.stdout, c.stderr, exit,
			said)
	}
}

// version is that of the device process.
func (r *keptRig) version(t *testing.T) (version string) {
	t.Helper()
	until(t, time.Minute, "the device says its version", func() bool {
		a, err := admin.Ask(r.socket, admin.Request{Version: true})
		if err != nil {
			return false // it was just replaced
		}
		version = a.Version
		return true
	})
	return version
}

// workers are the numbers of the workers' processes.
func (r *keptRig) workers() (pids []int) {
	for _, pid := range leaks.Family(r.starter) {
		if slices.Contains(commandOf(pid), "worker") {
			pids = append(pids, pid)
		}
	}
	return pids
}
