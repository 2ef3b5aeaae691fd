// Nobody is logged in here. What is left of a conversation goes, in this tab; the others are told to look.

sessionStorage.clear();
new BroadcastChannel("login").postMessage("nobody");
