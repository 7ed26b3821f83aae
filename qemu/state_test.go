// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSaveState(t *testing.T) {
	f := newFake(t)
	f.migration = []string{"setup", "active", "completed"}
	if err := SaveState(context.Background(), QMP(f.socket), "/d/state"); err != nil {
		t.Fatal(err)
	}
	if f.migrated != "file:/d/state" || len(f.migration) != 1 {
		t.Errorf("saved to %s, with %q to come", f.migrated, f.migration)
	}
}

func TestSaveStateFails(t *testing.T) {
	f := newFake(t)
	f.migration = []string{"active", "failed"}
	err := SaveState(context.Background(), QMP(f.socket), "/d/state")
	if err == nil || !strings.Contains(err.Error(), "No space left") {
		t.Errorf("the error is %v", err)
	}
	f.refuse["migrate"] = "State blocked by a device"
	if err = SaveState(context.Background(), QMP(f.socket), "/d/state"); err == nil ||
		!strings.Contains(err.Error(), "State blocked") {
		t.Errorf("the error is %v", err)
	}
}

// TestSaveStateThatNeverEnds ends with its context.
func TestSaveStateThatNeverEnds(t *testing.T) {
	f := newFake(t)
	f.migration = []string{"active"}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	asked := func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return slices.Contains(f.commands, "query-migrate")
	}
	saved := make(chan error, 1)
	go func() { saved <- SaveState(ctx, QMP(f.socket), "/d/state") }()
	for !asked() && len(saved) == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-saved; !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}
