"""Made-up messages: what each is, number by number, and the kernel that writes plain ones."""
