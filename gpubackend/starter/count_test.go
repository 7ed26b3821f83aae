// SPDX-License-Identifier: Apache-2.0

package starter

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/ledger"
)

// TestCount: what all children take is counted, and nothing of others.
func TestCount(t *testing.T) {
	client, _ := serve(t, Config{
		Start: execute,
		Count: func(pid int) ([ledger.GPUs]uint64, error) {
			return [ledger.GPUs]uint64{uint64(pid) * 10, 3: 7}, nil
		},
	})
	if bytes, err := client.Count(); err != nil || len(bytes) != 0 {
		t.Errorf("of nobody: %v, %v", bytes, err)
	}
	_, theirs := control(t)
	p, err := client.Start(Usage, theirs)
	if err != nil {
		t.Fatal(err)
	}
	if bytes, err := client.Count(); err != nil || len(bytes) != 1 ||
		bytes[p.PID()] != [ledger.GPUs]uint64{uint64(p.PID()) * 10, 3: 7} {
		t.Errorf("of %d: %v, %v", p.PID(), bytes, err)
	}
	p.Kill()
	_ = p.Wait()
	client, over := serve(t, Config{Start: execute})
	if bytes, err := client.Count(); err == nil {
		t.Errorf("by nobody: %v", bytes)
	}
	if err := <-over; !errors.Is(err, errMessage) {
		t.Errorf("who can't count was asked to: %v", err)
	}
	refuse := func(int) (none [ledger.GPUs]uint64, err error) { return none, unix.EACCES }
	client, _ = serve(t, Config{Start: execute, Count: refuse})
	if p, err = client.Start(Usage, theirs); err != nil {
		t.Fatal(err)
	}
	if bytes, err := client.Count(); !errors.Is(err, os.ErrPermission) {
		t.Errorf("without the right: %v, %v", bytes, err)
	}
	p.Kill()
	_ = p.Wait()
}

// TestCountAgain: whoever asks again as soon as it has its answer gets another one, and so do
// several that ask at once. Those that ask while as many as may wait do so are refused.
func TestCountAgain(t *testing.T) {
	counting, let := make(chan bool, 1+maxWaiting), make(chan bool, 1)
	count := func(int) (none [ledger.GPUs]uint64, err error) {
		counting <- true
		<-let
		return none, nil
	}
	client, _ := serve(t, Config{Start: execute, Count: count})
	_, theirs := control(t)
	p, err := client.Start(Worker, theirs)
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		let <- true
		if _, err := client.Count(); err != nil {
			t.Fatal(err)
		}
		<-counting
	}
	const asked = 1 + maxWaiting + 3
	answers := make(chan error, asked)
	ask := func() { _, err := client.Count(); answers <- err }
	go ask()
	<-counting
	for range asked - 1 {
		go ask()
	}
	// These are refused while the first count goes on.
	for range asked - 1 - maxWaiting {
		if err := <-answers; err == nil || !strings.Contains(err.Error(), errBusy.Error()) {
			t.Fatalf("the error is %v, want %v", err, errBusy)
		}
	}
	close(let)
	for range 1 + maxWaiting {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	p.Kill()
	_ = p.Wait()
}

// TestWeigh: the kernel is asked what each child has of the host's memory.
func TestWeigh(t *testing.T) {
	client, _ := serve(t, Config{Start: execute})
	if all, err := client.Weigh(); err != nil || len(all) != 0 {
		t.Errorf("of nobody: %v, %v", all, err)
	}
	_, theirs := control(t)
	p, err := client.Start(Usage, theirs)
	if err != nil {
		t.Fatal(err)
	}
	if all, err := client.Weigh(); err != nil || len(all) != 1 || all[p.PID()].Private == 0 {
		t.Errorf("of %d: %v, %v", p.PID(), all, err)
	}
	client.knows = false
	if all, err := client.Weigh(); !errors.Is(err, errCant) {
		t.Errorf("by an earlier version: %v, %v", all, err)
	}
	p.Kill()
	_ = p.Wait()
}
