// pci.h - the cards on this machine's PCI bus, which a container shows as well, and without a driver.
#ifndef LS_DEVICE_GPU_PCI_H
#define LS_DEVICE_GPU_PCI_H

// How many display controllers (class 03) are there of this vendor ("0x10de")? LOCKSTEP_SYS_ROOT in the environment stands before /sys, for tests.
int ls_pci_displays(const char *vendor);

#endif
