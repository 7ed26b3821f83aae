// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/device/admin"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/internal/leaks"
)

// TestParentsKilledInAChange kills the keeper, which ends the device process, or the process that
// starts workers, which ends these, in the middle of a suspend to a file or a resume from it. The
// VM then loses its GPU, or its programs do. But the command ends, no process is left, and the file
// is there as a whole or not at all: after a resume as it was. Without the process that starts
// workers another device process goes on, with another one.
func TestParentsKilledInAChange(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		seen := map[string]int{}
		for i := range keptRounds(t, 4) {
			victim := []string{"keeper", "starter"}[i%2]
			t.Run(fmt.Sprintf("%d-%s", i, victim), func(t *testing.T) {
				o := &orphans{victim: victim, file: filepath.Join(t.TempDir(), "file")}
				o.kept = startKeptOf(t, vm, "sh", "-c", keepsAgain,
					filepath.Join(programs, "keeps"))
				seen[o.round(t, i/2%2 == 1)]++
			})
		}
		t.Logf("%v", seen)
	})
}

// orphans is a VM that loses the parent of its processes.
type orphans struct {
	kept   *keptRig
	victim string
	file   string
}

// round loses it in the middle of a suspend or a resume, and says what happened.
func (o *orphans) round(t *testing.T, resume bool) string {
	t.Helper()
	words, before := []string{"suspend", "--to"}, []byte(nil)
	if resume {
		o.kept.must(t, "suspend", "--to", o.file)
		words, before = []string{"resume", "--from"}, o.content(t)
	}
	name := words[0] + " without " + o.victim
	parent := map[string]int{"keeper": o.kept.keeper, "starter": o.kept.starter}[o.victim]
	family := leaks.Family(parent)
	cmd := exec.CommandContext(t.Context(), paracuda, append(words, o.file, o.kept.socket)...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(rand.N(100 * time.Millisecond))
	family = append(family, leaks.Family(parent)...) // some have begun since
	_ = syscall.Kill(parent, syscall.SIGKILL)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var failed error
	until(t, time.Minute, name+": the command ends", func() bool {
		select {
		case failed = <-ended:
			return true
		default:
			return false
		}
	})
	o.kept.alive(t)
	now := o.content(t)
	switch {
	case resume && !bytes.Equal(now, before):
		t.Errorf("%s: the file has changed: %d bytes, it had %d", name, len(now), len(before))
	case !resume && failed == nil && now == nil:
		t.Errorf("%s: the command says %q, and there is no file", name, said.String())
	}
	until(t, time.Minute, name+": no process is left", func() bool { return !anyLives(family) })
	if o.victim == "starter" {
		o.withoutStarter(t, name, now)
	}
	return fmt.Sprintf("%s: failed %t, file %t", name, failed != nil, now != nil)
}

// withoutStarter: another device process goes on. A VM that is suspended to the file is resumed
// from it, and the file stays what it is. Programs compute.
func (o *orphans) withoutStarter(t *testing.T, name string, had []byte) {
	t.Helper()
	o.kept.nextStarter(t)
	var a *admin.Answer
	until(t, time.Minute, name+": a device process answers", func() bool {
		a = o.kept.ask()
		return a != nil && a.State != nil
	})
	if a.State.Saved {
		if had == nil {
			t.Fatalf("%s: the VM is suspended to a file, and there is none", name)
		}
		o.kept.must(t, "resume", "--from", o.file)
		if !bytes.Equal(o.content(t), had) {
			t.Errorf("%s: the file has changed", name)
		}
	} else if o.kept.state(t) == "suspended" { // all programs had ended before they could be saved
		o.kept.must(t, "resume")
	}
	o.kept.goesOn(t, name)
}

// content is that of the file, which must be whole; nil: there is none. Nothing else lies beside
// it.
func (o *orphans) content(t *testing.T) []byte {
	t.Helper()
	list, err := os.ReadDir(filepath.Dir(o.file))
	if err != nil || len(list) > 1 {
		t.Errorf("beside the file are %v, %v", list, err)
	}
	b, err := os.ReadFile(o.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := savedvm.OpenFile(bytes.NewReader(b))
	if err != nil || f.Behind != nil {
		t.Fatalf("the file isn't whole: %v, %v", err, f)
	}
	nobody := func(int, savedvm.Program) (io.WriteCloser, func() error) { return nil, nil }
	if err := f.Last().Each(nobody); err != nil {
		t.Fatal(err)
	}
	return b
}

// anyLives says whether one of these processes is there, and no zombie.
func anyLives(pids []int) bool {
	for _, pid := range pids {
		if len(commandOf(pid)) > 1 {
			return true
		}
	}
	return false
}
