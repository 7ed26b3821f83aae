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
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	err := SaveState(ctx, QMP(f.socket), "/d/state")
	f.mu.Lock()
	defer f.mu.Unlock()
	if !errors.Is(err, context.DeadlineExceeded) || !slices.Contains(f.commands, "query-migrate") {
		t.Errorf("the error is %v after %q", err, f.commands)
	}
}
