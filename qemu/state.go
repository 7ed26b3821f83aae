// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// OldestCopying is the first release of which a VM can begin as a copy of another.
var OldestCopying = Version{Major: 10}

// SaveState puts the state of a VM that has Machine.RAM in a file, but for its memory. The VM
// doesn't run on.
func SaveState(ctx context.Context, vm Target, file string) error {
	m, err := vm.connect(ctx)
	if err != nil {
		return err
	}
	defer m.close()
	if err := m.run("migrate", arguments{"uri": "file:" + file}, nil); err != nil {
		return fmt.Errorf("save the state of a VM: %w", err)
	}
	if err := m.migrated(); err != nil {
		return fmt.Errorf("save the state of a VM: %w", err)
	}
	return nil
}

// migrated waits until a migration is over.
func (m *monitor) migrated() error {
	for {
		var now struct {
			Status string
			Why    string `json:"error-desc"`
		}
		if err := m.run("query-migrate", nil, &now); err != nil {
			return err
		}
		switch now.Status {
		case "completed":
			return nil
		case "failed", "cancelled":
			return plainError{errors.Join(errors.New("migration "+now.Status), errors.New(now.Why))}
		}
		select {
		case <-m.ctx.Done():
			return m.ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}
