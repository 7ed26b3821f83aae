// SPDX-License-Identifier: Apache-2.0

// Package template keeps VMs that have booted, so that others begin as copies of them.
//
// A template is a file: the state of a VM's devices and processors, as its front end saves it, and
// the pages of its memory that aren't zero. A Catalog is the directory of these files. It belongs
// to one user, whose VMs may begin with whatever is there: nobody else may write to it. Processes
// share it: one makes a template, and the others wait for it. A template is named by all that it
// depends on, and never changes.
//
// The package knows nothing of front ends: who makes a template boots the VM.
package template
