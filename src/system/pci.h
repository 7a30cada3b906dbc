// pci.h - the cards on this machine's PCI bus. They are visible in a container too, and without a driver.
#ifndef LS_SYSTEM_PCI_H
#define LS_SYSTEM_PCI_H

// Returns the number of display controllers (class 03) of this vendor ("0x10de"). For tests, the environment variable
// LOCKSTEP_SYS_ROOT is put before /sys.
int ls_pci_displays(const char *vendor);

#endif
