// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"errors"
	"fmt"
)

// PlugMemory puts a DIMM of that many bytes, shared with back ends, into a VM. Machine.Most must
// leave room for it, and the guest must have ACPI. The guest may begin to use it only later.
func PlugMemory(ctx context.Context, vm Target, id string, bytes int64) error {
	m, err := vm.connect(ctx)
	if err != nil {
		return err
	}
	defer m.close()
	backend := arguments{"qom-type": "memory-backend-memfd", "id": dimmMemory(id), "size": bytes,
		"share": true}
	if err := m.run("object-add", backend, nil); err != nil {
		return fmt.Errorf("plug memory %s: %w", id, err)
	}
	dimm := arguments{"driver": "pc-dimm", "id": id, "memdev": dimmMemory(id)}
	if err := m.run("device_add", dimm, nil); err != nil {
		gone := m.run("object-del", arguments{"id": dimmMemory(id)}, nil)
		return fmt.Errorf("plug memory %s: %w", id, errors.Join(err, gone))
	}
	return nil
}

// UnplugMemory takes a DIMM out, and returns once the guest has let go of it.
func UnplugMemory(ctx context.Context, vm Target, id string) error {
	m, err := vm.connect(ctx)
	if err != nil {
		return err
	}
	defer m.close()
	if err := m.unplug(id); err != nil {
		return fmt.Errorf("unplug memory %s: %w", id, err)
	}
	if err := m.run("object-del", arguments{"id": dimmMemory(id)}, nil); err != nil {
		return fmt.Errorf("unplug memory %s: %w", id, err)
	}
	return nil
}

// dimmMemory is the id of the backend of a DIMM.
func dimmMemory(id string) string { return id + "-memory" }
